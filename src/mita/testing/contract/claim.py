"""Claiming jobs: when they are due, and each by one worker."""

import asyncio
import time
from typing import Any

from mita.model.job import Claim, State
from mita.model.time import When
from mita.ports.store import Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    PAST_SOON,
    QUEUE,
    SHORT,
    SOON,
    claim_one,
    claimed_ids,
    claims,
    exact,
    jobs,
    look,
    put,
    put_many,
    release,
    running,
    settled,
    state_of,
)

CLAIM_S = 1.0  # far longer than a claim takes that does not look at every waiting job


async def test_a_claim_has_every_field_that_a_run_needs(store: Store) -> None:
    """A claim has the task, the arguments, the counters and the times of its job."""
    fields: dict[str, Any] = {
        "task": "charge",
        "payload": bytes(range(256)),
        "options": b"\x80",
        "headers": b"\x81\xff\x00",
        "priority": 7,
        "resource": "account:42",
        "unique": "order:1",
        "repeat": "nightly",
        "fire_time": 1_699_999_999_000,
    }
    id = await put(store, **fields)
    stored = await look(store, id)
    claim = await claim_one(store)
    assert claim == Claim(
        id=id,
        token=claim.token,
        at=claim.at,
        queue=QUEUE,
        due=stored.due,
        created=stored.created,
        ref=claim.ref,
        **fields,
    )
    assert claim.at >= stored.due


async def test_a_claimed_job_runs_under_a_lease(store: Store) -> None:
    """A claim makes the job running, with the name of the worker, a token and the end of the
    lease."""
    claim = await running(store, worker="w7", lease=LONG)
    held = await look(store, claim.id)
    assert (held.state, held.worker, held.token) == (State.RUNNING, "w7", claim.token)
    assert (held.started, held.lease_until) == (claim.at, claim.at + LONG)


async def test_tokens_only_grow(store: Store) -> None:
    """I3 one outcome: each claim of a job has a larger token than the one before."""
    await put(store)
    tokens = []
    for _ in range(4):
        claim = await claim_one(store)
        tokens.append(claim.token)
        await settled(store, release(claim))
    assert tokens == sorted(set(tokens))


async def test_nothing_starts_before_its_due_time(store: Store, clock: Ticker) -> None:
    """I8 not early: a job cannot be claimed before it is due on the clock of the store."""
    waits = await put(store, when=When(SOON))
    named = await put(store, when=When(at=await store.now() + SOON))
    far = await put(store, when=When(LONG))
    assert await claimed_ids(store) == []
    await clock.tick(PAST_SOON)
    assert sorted(await claimed_ids(store)) == sorted([waits, named])
    assert await state_of(store, far) is State.QUEUED


async def test_a_job_can_be_claimed_from_its_due_time_on(store: Store, clock: Ticker) -> None:
    """I8 not early: a job can be claimed in the very millisecond in which it is due, and not one
    earlier."""
    id = await put(store, when=When(SHORT))
    if exact(store, clock):
        await clock.tick(SHORT - 1)
        assert await claimed_ids(store) == []
        await clock.tick(1)
    else:
        await clock.tick(PAST)
    assert await claimed_ids(store) == [id]


async def test_concurrent_claims_never_share_a_job(store: Store, twin: Store) -> None:
    """I4 bounded duplicates: many concurrent claims of two processes get every job exactly once."""
    batch = jobs(120)
    await store.enqueue(batch)
    turns = await asyncio.gather(
        *(handle.claim([QUEUE], 7, LONG, "w") for handle in [store, twin] * 12)
    )
    ids = [claim.id for turn in turns for claim in turn.claims]
    ids += [claim.id for claim in await claims(store, 200)]
    assert sorted(ids) == sorted(new.id for new in batch)


async def test_a_claim_returns_at_most_its_limit(store: Store) -> None:
    """A claim returns at most `limit` jobs and says that there may be more at once."""
    await put_many(store, 5)
    turn = await store.claim([QUEUE], 3, LONG, "w1")
    assert len(turn.claims) == 3
    assert turn.again == 0, "there may be more at once"
    assert len(await claims(store)) == 2


async def test_only_the_named_queues_are_served(store: Store) -> None:
    """A claim returns jobs of the queues it names, and of no other."""
    mail, billing = await put(store), await put(store, queue="billing")
    assert await claimed_ids(store, queues=["billing", "nobody"]) == [billing]
    assert await claimed_ids(store, queues=[]) == []
    assert await claimed_ids(store) == [mail]


async def test_a_limit_of_zero_claims_nothing(store: Store) -> None:
    """A claim with limit 0 only says whether there is something to claim."""
    id = await put(store)
    turn = await store.claim([QUEUE], 0, LONG, "w1")
    assert (turn.claims, turn.again) == ([], 0)
    assert await claimed_ids(store) == [id]
    turn = await store.claim([QUEUE], 0, LONG, "w1")
    assert (turn.claims, turn.again) == ([], None)


async def test_an_empty_claim_says_when_the_next_job_is_due(store: Store, clock: Ticker) -> None:
    """A claim that finds nothing returns the time until the next job of its queues is due."""
    assert (await store.claim([QUEUE], 10, LONG, "w1")).again is None
    await put(store, when=When(LONG))
    await put(store, when=When(LONG // 2), queue="billing")
    again = (await store.claim([QUEUE, "billing"], 10, LONG, "w1")).again
    assert again is not None
    assert again == LONG // 2 if exact(store, clock) else again <= LONG // 2
    again = (await store.claim([QUEUE], 10, LONG, "w1")).again
    assert again is not None
    assert again == LONG if exact(store, clock) else again <= LONG


async def test_a_claim_below_its_limit_says_when_the_next_job_is_due(
    store: Store, clock: Ticker
) -> None:
    """So does a claim that found fewer jobs than its limit."""
    due = await put(store)
    await put(store, when=When(LONG))
    turn = await store.claim([QUEUE], 2, LONG, "w1")
    assert [claim.id for claim in turn.claims] == [due]
    assert turn.again is not None
    assert turn.again == LONG if exact(store, clock) else turn.again <= LONG


async def test_sleeping_as_long_as_claims_say_finds_every_job(store: Store, clock: Ticker) -> None:
    """I9 no starvation: a worker that sleeps exactly as long as the claims say gets every job."""
    ids = [await put(store, when=When(wait)) for wait in (0, SHORT // 2, SHORT)]
    met: list[str] = []
    for _ in range(20):
        turn = await store.claim([QUEUE], 1, LONG, "w1")
        met += [claim.id for claim in turn.claims]
        if turn.again is None:
            break
        await clock.tick(turn.again)
    assert met == ids if exact(store, clock) else sorted(met) == sorted(ids)


async def test_thousands_of_waiting_jobs_do_not_make_a_claim_slow(store: Store) -> None:
    """I14 bounded: with 6,000 jobs in the queue the quickest of five claims takes less than a
    second."""
    await store.enqueue(jobs(3000, when=When(LONG)))
    await store.enqueue(jobs(3000))
    urgent = await put_many(store, 5, priority=9)
    took: list[float] = []
    for _ in urgent:
        started = time.monotonic()
        assert (await claim_one(store)).id in urgent
        took.append(time.monotonic() - started)
    assert min(took) < CLAIM_S, "not even one of five was quick"
