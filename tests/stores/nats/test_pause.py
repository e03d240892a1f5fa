"""No job starts after a pause, even if a claim has read before that the queue is not paused."""

import asyncio

import pytest

from mita.stores.nats import NatsStore, claim, control
from mita.stores.nats.codec import QueueRecord
from mita.testing.contract.given import LONG, QUEUE, claimed_ids, put


async def check_barrier(
    store: NatsStore, other: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another store pauses the queue and enqueues a job after a claim has read the queue's record,
    before it pulls."""
    first = await put(store)
    assert await next_ids(store) == [first]
    look = claim._Claiming._unpaused
    later: list[str] = []

    async def look_and_be_overtaken(claiming: claim._Claiming) -> list[QueueRecord]:
        found = await look(claiming)
        await other.pause([QUEUE])
        later.append(await put(other))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(claim._Claiming, "_unpaused", look_and_be_overtaken)
        assert await claimed_ids(store) == []
    await other.resume([QUEUE])
    assert await next_ids(store) == later


async def next_ids(store: NatsStore) -> list[str]:
    """Claims until there is a job: a consumer knows of a message a moment after its publisher
    does."""
    for _ in range(400):
        if found := await claimed_ids(store):
            return found
        await asyncio.sleep(0.02)
    raise AssertionError("nothing came")


async def test_a_claim_under_way_gets_nothing_that_came_after_the_pause(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_barrier(store, twin, monkeypatch)


async def test_an_enqueue_by_a_new_store_does_not_end_a_pause(
    store: NatsStore, twin: NatsStore, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first enqueue of a store makes sure that there is a consumer."""
    await put(twin)
    await claimed_ids(store)
    look = claim._Claiming._unpaused

    async def look_and_be_overtaken(claiming: claim._Claiming) -> list[QueueRecord]:
        found = await look(claiming)
        await twin.pause([QUEUE])
        newcomer = NatsStore(twin._servers, namespace=namespace)
        await newcomer.open()
        await put(newcomer)
        await newcomer.close()
        return found

    monkeypatch.setattr(claim._Claiming, "_unpaused", look_and_be_overtaken)
    assert await claimed_ids(store) == []


async def test_a_claim_that_was_stopped_for_long_returns_nothing(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumers of a paused queue are stopped for a limited time: a claim does not believe an
    old read of the queue's record."""
    monkeypatch.setattr(claim, "UNPAUSED_BELIEVED_S", -1.0)
    id = await put(store)
    assert (await store.claim([QUEUE], 10, LONG, "w1")).claims == []
    monkeypatch.undo()
    assert await next_ids(store) == [id]
    assert control.CONSUMER_PAUSE_MS > claim.UNPAUSED_BELIEVED_S * 1000


async def test_a_queue_that_was_resumed_during_a_pause_is_not_stopped(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I12: another store resumes the queue between the two steps of the pause."""
    id = await put(store)
    stop = control._pause_consumers

    async def be_overtaken(*args: object) -> None:
        monkeypatch.setattr(control, "_pause_consumers", stop)
        await twin.resume([QUEUE])
        await stop(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(control, "_pause_consumers", be_overtaken)
    await store.pause([QUEUE])
    assert await claimed_ids(store) == [id]
