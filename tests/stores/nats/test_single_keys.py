"""Jobs with one key that start and end without an atomic batch: the same result as with one, and
nothing is lost if a store dies or is stopped between two steps."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from mita.model.job import Claim, State
from mita.model.outcome import CancelJob, RetryJob, Settlement
from mita.model.time import NOW
from mita.stores.nats import NatsStore
from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.stream import consumers
from mita.stores.nats.tickets import take
from mita.stores.nats.tickets.ticket import Ticket
from mita.testing.contract.given import (
    LONG,
    QUEUE,
    SHORT,
    claims,
    fail,
    look,
    put,
    put_many,
    retry,
    running,
    settled,
    state_of,
    succeed,
)
from tests.waiting import until

from .test_fail_points import dies

AFTER_KEY, AFTER_RECORD = "between key and record", "between record and key"


@pytest.fixture(autouse=True)
def _quicker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "ACK_WAIT_S", 1)


async def at(store: NatsStore, where: str, act: Callable[[], Awaitable[Any]]) -> None:
    """Let the store call this once at this point."""
    acts = [act]

    async def point(name: str) -> None:
        if name == where and acts:
            await acts.pop()()

    store.context.fail_point = point


async def holders(store: NatsStore) -> dict[str, list[str]]:
    """The ids of the jobs that hold each key."""
    return {view.key: [one.id for one in view.holders] for view in await store.resources()}


# ---------------------------------------------------------------- the same as with batches


async def story(store: NatsStore) -> list[object]:
    """What becomes of jobs at two keys, one of which lets two jobs run."""
    ids = await put_many(store, 3, resource="one")
    ids += await put_many(store, 4, resource="two", limit=2)
    ids += await put_many(store, 2, resource="three")
    told: list[object] = []

    async def note(found: Sequence[Claim]) -> None:
        states = [(await look(store, id)).state for id in ids]
        views = [(view.key, len(view.holders), view.waiting) for view in await store.resources()]
        told.extend([sorted(ids.index(claim.id) for claim in found), states, sorted(views)])

    verdicts: list[Callable[[Claim], Settlement]] = [succeed, fail, retry, succeed]
    for turn in range(8):
        found = await claims(store, 10)
        await note(found)
        await settled(
            store, *(verdicts[(turn + at) % len(verdicts)](claim) for at, claim in enumerate(found))
        )
        await note([])
    return told


async def test_keys_are_used_as_with_batches(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await story(store)
    left = await claims(store, 10)
    await settled(store, *map(succeed, left))
    await store.amend([one.id for one in left], CancelJob(keep=0))

    async def none(
        _: object, tickets: list[Ticket], *__: object
    ) -> tuple[list[Claim], list[Ticket]]:
        return [], tickets

    monkeypatch.setattr(take, "_take_single", none)
    assert await story(twin) == first


async def test_a_free_key_takes_no_batch_and_leaves_nothing(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put_many(store, 3, resource="r")

    async def batch(_: Sequence[OutMessage]) -> int:
        raise AssertionError("a batch")

    one = await put(store, resource="other")
    await settled(store, *map(succeed, await until(lambda: claims(store, 10))))
    await settled(store, *map(succeed, await until(lambda: claims(store, 10))))
    await settled(store, *map(succeed, await until(lambda: claims(store, 10))))
    assert (await look(store, one)).state is State.SUCCEEDED
    assert await store.resources() == []
    monkeypatch.setattr(store.context.wire, "store_batch", batch)
    for _ in range(2):
        claim = await running(store, resource="r")
        assert await holders(store) == {"r": [claim.id]}
        await settled(store, succeed(claim))
        assert await store.resources() == []


async def test_a_job_that_came_to_the_key_is_woken(store: NatsStore, twin: NatsStore) -> None:
    holder = await running(store, resource="r")
    waiter = await put(twin, resource="r")
    assert await claims(twin) == []
    assert await state_of(twin, waiter) is State.BLOCKED
    await settled(store, succeed(holder))
    assert [claim.id for claim in await until(lambda: claims(twin))] == [waiter]
    assert await holders(store) == {"r": [waiter]}


# ---------------------------------------------------------------- a start


async def test_a_store_that_dies_with_the_key_of_its_job_loses_nothing(
    store: NatsStore, twin: NatsStore
) -> None:
    """The ticket comes to another store, for which the key is open."""
    id = await put(store, resource="r")
    await dies(store, AFTER_KEY, lambda: store.claim([QUEUE], 1, SHORT, "w1"))
    assert await holders(twin) == {"r": [id]}
    assert await state_of(twin, id) is State.QUEUED
    [claim] = await until(lambda: claims(twin), "it comes")
    assert (claim.id, claim.token) == (id, 1)
    await settled(twin, succeed(claim))
    assert await twin.resources() == []


async def test_others_at_that_key_wait_for_the_job_of_the_store_that_died(
    store: NatsStore, twin: NatsStore
) -> None:
    first = await put(store, resource="r")
    await dies(store, AFTER_KEY, lambda: store.claim([QUEUE], 1, SHORT, "w1"))
    second = await put(twin, resource="r")
    order: list[str] = []
    while len(order) < 2:
        for claim in await until(lambda: claims(twin, 1), "they come"):
            order.append(claim.id)
            assert await holders(twin) == {"r": [claim.id]}
            await settled(twin, succeed(claim))
    assert order == [first, second]


async def test_a_reap_frees_the_key_of_a_job_that_was_cancelled_meanwhile(
    store: NatsStore, twin: NatsStore
) -> None:
    id = await put(store, resource="r")
    await dies(store, AFTER_KEY, lambda: store.claim([QUEUE], 1, SHORT, "w1"))
    await twin.amend([id], CancelJob(keep=LONG))
    assert await twin.reap(10, LONG, "w2") == []
    assert await twin.resources() == []


async def test_a_store_that_was_stopped_with_the_key_cannot_go_on_after_a_reap(
    store: NatsStore, twin: NatsStore
) -> None:
    """I5: the key may have another holder by then."""
    first = await put(store, resource="r")
    other: list[Claim] = []

    async def reaped() -> None:
        await twin.reap(10, LONG, "w2")
        assert await twin.resources() == []
        other.append(await running(twin, resource="r", priority=9))

    await at(store, AFTER_KEY, reaped)
    assert await claims(store, 1) == []
    [holder] = other
    assert await holders(twin) == {"r": [holder.id]}
    assert await claims(store, 1) == []
    await settled(twin, succeed(holder))
    assert [claim.id for claim in await until(lambda: claims(twin))] == [first]


async def test_a_job_that_is_cancelled_while_it_starts_keeps_no_key(
    store: NatsStore, twin: NatsStore
) -> None:
    id = await put(store, resource="r")

    async def cancel() -> None:
        await twin.amend([id], CancelJob(keep=LONG))

    await at(store, AFTER_KEY, cancel)
    assert await claims(store, 1) == []
    assert await state_of(store, id) is State.CANCELLED
    assert await store.resources() == []


async def test_a_job_that_another_store_starts_meanwhile_keeps_its_key(
    store: NatsStore, twin: NatsStore
) -> None:
    id = await put(store, resource="r")
    other: list[Claim] = []

    async def start() -> None:
        await asyncio.sleep(1)  # until the ticket is delivered again
        other.extend(await until(lambda: claims(twin), "it comes again"))

    await at(store, AFTER_KEY, start)
    assert await claims(store, 1) == []
    assert [claim.id for claim in other] == [id]
    assert await holders(store) == {"r": [id]}
    await settled(twin, *map(succeed, other))
    assert await store.resources() == []


# ---------------------------------------------------------------- an end


async def test_a_reap_frees_the_key_of_a_store_that_died_before_it_did(
    store: NatsStore, twin: NatsStore
) -> None:
    holder = await running(store, resource="r")
    waiter = await put(twin, resource="r")
    assert await claims(twin) == []
    await dies(store, AFTER_RECORD, lambda: store.settle([succeed(holder)]))
    assert await state_of(twin, holder.id) is State.SUCCEEDED
    assert await claims(twin) == []
    await twin.reap(10, LONG, "w2")
    assert [claim.id for claim in await until(lambda: claims(twin))] == [waiter]


async def test_a_job_that_is_retried_while_its_key_is_freed_has_it_or_waits(
    store: NatsStore, twin: NatsStore
) -> None:
    """I5: another store starts it again before the first has freed the key."""
    holder = await running(store, resource="r")
    other: list[Claim] = []

    async def again() -> None:
        await twin.amend([holder.id], RetryJob(NOW))
        other.extend(await until(lambda: claims(twin), "it comes again"))

    await at(store, AFTER_RECORD, again)
    await settled(store, fail(holder))
    assert [claim.id for claim in other] == [holder.id]
    assert await holders(store) == {"r": [holder.id]}
    waiter = await put(store, resource="r")
    assert await claims(store) == []
    await settled(twin, *map(succeed, other))
    assert [claim.id for claim in await until(lambda: claims(store))] == [waiter]
