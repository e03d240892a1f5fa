"""A pause is a barrier, also for a claim that has already read that the queue is open."""

import asyncio

import pytest

from mita.stores.nats import NatsStore, claim, control
from mita.stores.nats.codec import QueueRecord
from mita.testing.contract.given import LONG, QUEUE, claimed_ids, put


async def check_barrier(
    store: NatsStore, other: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between a claim's look at the queue and its pull, another pauses the queue and enqueues a
    job."""
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
    """What the next claims give: a consumer hears of a new message a moment after its publisher."""
    for _ in range(400):
        if found := await claimed_ids(store):
            return found
        await asyncio.sleep(0.02)
    raise AssertionError("nothing came")


async def test_a_claim_under_way_gets_nothing_that_came_after_the_pause(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await check_barrier(store, twin, monkeypatch)


async def test_a_line_that_is_new_to_an_enqueuer_does_not_lift_a_pause(
    store: NatsStore, twin: NatsStore, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever enqueues for the first time makes sure that there is a consumer."""
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


async def test_a_claim_that_stood_still_gives_nothing(
    store: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The consumers of a paused queue are stopped for a while only: a claim does not believe an old
    look at the queue."""
    monkeypatch.setattr(claim, "UNPAUSED_BELIEVED_S", -1.0)
    id = await put(store)
    assert (await store.claim([QUEUE], 10, LONG, "w1")).claims == []
    monkeypatch.undo()
    assert await next_ids(store) == [id]
    assert control.CONSUMER_PAUSE_MS > claim.UNPAUSED_BELIEVED_S * 1000


async def test_a_pause_that_was_lifted_meanwhile_leaves_nothing_stopped(
    store: NatsStore, twin: NatsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I12: the other resumes between the two steps of the pause."""
    id = await put(store)
    stop = control._pause_consumers

    async def be_overtaken(*args: object) -> None:
        monkeypatch.setattr(control, "_pause_consumers", stop)
        await twin.resume([QUEUE])
        await stop(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(control, "_pause_consumers", be_overtaken)
    await store.pause([QUEUE])
    assert await claimed_ids(store) == [id]
