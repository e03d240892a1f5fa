"""A paused queue hands out nothing and takes everything in."""

import asyncio

from mita.model.job import State
from mita.model.time import When
from mita.ports.store import Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    QUEUE,
    claimed_ids,
    claims,
    look,
    move,
    put,
    put_many,
    running,
    settled,
    state_of,
    succeed,
)


async def test_a_paused_queue_gives_nothing_and_the_others_do(store: Store, twin: Store) -> None:
    id, other = await put(store), await put(store, queue="billing")
    await twin.pause([QUEUE])
    assert await claimed_ids(store, queues=[QUEUE, "billing"]) == [other]
    assert await state_of(store, id) is State.QUEUED


async def test_what_comes_after_a_pause_is_not_handed_out_by_claims_under_way(
    store: Store, twin: Store
) -> None:
    """A pause is a barrier: a claim that began before it may give what was there before, and
    nothing that came after."""
    for n in range(20):
        resource = f"key {n}" if n % 2 else None
        await put_many(store, 3, resource=resource)
        under_way = [
            asyncio.ensure_future(handle.claim([QUEUE], 50, LONG, "w1"))
            for handle in (store, twin)
            for _ in range(2)
        ]
        await asyncio.sleep(0.0005 * (n % 5))
        await twin.pause([QUEUE])
        later = await put_many(twin, 2, resource=resource)
        turns = await asyncio.gather(*under_way)
        turns += await asyncio.gather(
            *(handle.claim([QUEUE], 50, LONG, "w1") for handle in (store, twin))
        )
        given = {claim.id for turn in turns for claim in turn.claims}
        assert not given & set(later), f"round {n}"
        await store.resume([QUEUE])
        while await drain(store):
            pass


async def drain(store: Store) -> int:
    """Claim and end what there is; how many that was."""
    taken = await claims(store, 50)
    await settled(store, *(succeed(claim) for claim in taken))
    return len(taken)


async def test_a_resumed_queue_gives_again(store: Store, twin: Store) -> None:
    await store.pause([QUEUE, "billing"])
    mail, billing = await put(store), await put(store, queue="billing")
    assert await claimed_ids(store, queues=[QUEUE, "billing"]) == []
    await twin.resume([QUEUE])
    assert await claimed_ids(store, queues=[QUEUE, "billing"]) == [mail]
    await twin.resume(["billing"])
    assert await claimed_ids(store, queues=[QUEUE, "billing"]) == [billing]


async def test_what_runs_in_a_paused_queue_runs_on(store: Store) -> None:
    ends, moves = await running(store), await running(store)
    await store.pause([QUEUE])
    await settled(store, succeed(ends), move(moves))
    assert await state_of(store, ends.id) is State.SUCCEEDED
    assert await claimed_ids(store) == []


async def test_nobody_is_told_to_come_back_for_a_paused_queue(store: Store) -> None:
    """I14"""
    await put(store)
    await put(store, when=When(LONG))
    await store.pause([QUEUE])
    for limit in (0, 10):
        assert (await store.claim([QUEUE], limit, LONG, "w1")).again is None


async def test_a_pause_is_shown_with_its_beginning(store: Store, clock: Ticker) -> None:
    before = await store.now()
    await store.pause([QUEUE])
    [view] = await store.queues()
    assert view.name == QUEUE
    assert view.paused is not None
    assert before <= view.paused <= await store.now()
    await clock.tick(PAST)
    await store.pause([QUEUE])
    assert (await store.queues())[0].paused == view.paused, "pausing again is no new beginning"
    await store.resume([QUEUE])
    assert (await store.queues())[0].paused is None


async def test_pausing_and_resuming_what_is_not_there_is_fine(store: Store) -> None:
    await store.resume(["nobody"])
    await store.pause([])
    await store.resume([])
    assert await store.queues() == []


async def test_a_pause_keeps_every_job_as_it_is(store: Store) -> None:
    """I13"""
    ids = [await put(store), await put(store, when=When(LONG))]
    before = [await look(store, id) for id in ids]
    await store.pause([QUEUE])
    await claimed_ids(store)
    await store.resume([QUEUE])
    assert [await look(store, id) for id in ids] == before
