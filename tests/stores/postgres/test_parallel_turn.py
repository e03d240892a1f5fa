"""Calls with many settlements: they settle on one connection and claim on another."""

from collections.abc import Callable
from typing import Any

import pytest

from mita.errors import StoreError
from mita.model.job import Claim
from mita.model.outcome import Answer, ClaimResult, RescheduleJob
from mita.model.time import When
from mita.stores.postgres import PostgresStore
from mita.stores.postgres.limits.hints import ClaimHints
from mita.stores.postgres.throughput.parallel_turn import PARALLEL_SETTLEMENTS, ParallelTurn
from mita.testing.contract.given import LONG, QUEUE, claims, jobs, succeed


class Fails:
    """A connection that always fails, or always returns the same answer."""

    def __init__(self, answer: Any = None) -> None:
        self.answer, self.calls = answer, 0

    async def run(self, verb: Callable[..., Any], *, repeatable: bool) -> Any:
        self.calls += 1
        if self.answer is None:
            raise StoreError("gone", transient=True)
        return self.answer


def turning(work: Fails, beside: Fails) -> ParallelTurn:
    return ParallelTurn(work, beside, ClaimHints())  # type: ignore[arg-type]


async def many(store: PostgresStore) -> list[Claim]:
    await store.enqueue(jobs(PARALLEL_SETTLEMENTS))
    return await claims(store, PARALLEL_SETTLEMENTS)


async def test_many_are_settled_and_the_next_are_claimed(store: PostgresStore) -> None:
    held = await many(store)
    waiting = [receipt.id for receipt in await store.enqueue(jobs(3))]
    turn = await store.settle_and_claim([succeed(claim) for claim in held], [QUEUE], 10, LONG, "w")
    assert store._beside._connection is not None
    assert (turn.took, [claim.id for claim in turn.claims], turn.again) == (
        [True] * PARALLEL_SETTLEMENTS,
        waiting,
        None,
    )
    again = await store.settle_and_claim([succeed(claim) for claim in held], [QUEUE], 10, LONG, "w")
    assert (again.took, again.claims) == ([False] * PARALLEL_SETTLEMENTS, []), "I3"


async def test_a_rescheduled_job_is_claimed_by_this_call_or_the_next(
    store: PostgresStore,
) -> None:
    """I9"""
    held = await many(store)
    assert await store.amend([held[0].id], RescheduleJob(When(wait=0))) == [Answer.ASKED]
    turn = await store.settle_and_claim([succeed(claim) for claim in held], [QUEUE], 10, LONG, "w")
    found = turn.claims or await claims(store, 10)
    assert (turn.took, [claim.id for claim in found]) == (
        [True] * PARALLEL_SETTLEMENTS,
        [held[0].id],
    )


async def test_settlements_took_although_the_claim_failed(
    store: PostgresStore,
) -> None:
    held = [succeed(claim) for claim in await many(store)]
    turn = await turning(Fails([True] * PARALLEL_SETTLEMENTS), Fails()).settle_and_claim(
        held, [QUEUE], 10, LONG, "w"
    )
    assert (turn.took, turn.claims, turn.again) == ([True] * PARALLEL_SETTLEMENTS, [], 0)


async def test_after_a_failed_settle_nothing_is_claimed_beside_it(
    store: PostgresStore,
) -> None:
    held = [succeed(claim) for claim in await many(store)]
    beside = Fails(ClaimResult([], []))
    careful = turning(Fails(), beside)
    for _ in range(3):
        with pytest.raises(StoreError):
            await careful.settle_and_claim(held, [QUEUE], 10, LONG, "w")
    assert beside.calls == 1
