"""A paused queue accepts jobs and gives none to workers."""

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


async def test_a_paused_queue_gives_no_jobs_and_the_others_do(store: Store, twin: Store) -> None:
    """Jobs of a paused queue stay queued while other queues are served."""
    id, other = await put(store), await put(store, queue="billing")
    await twin.pause([QUEUE])
    assert await claimed_ids(store, queues=[QUEUE, "billing"]) == [other]
    assert await state_of(store, id) is State.QUEUED


async def test_a_claim_under_way_gets_nothing_that_came_after_the_pause(
    store: Store, twin: Store
) -> None:
    """A pause is a barrier: a claim that began before it may return what was enqueued before, and
    nothing that was enqueued after."""
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
    """Claim every job and settle it. Returns how many there were."""
    taken = await claims(store, 50)
    await settled(store, *(succeed(claim) for claim in taken))
    return len(taken)


async def test_a_resumed_queue_gives_jobs_again(store: Store, twin: Store) -> None:
    """After a resume the jobs of the queue can be claimed."""
    await store.pause([QUEUE, "billing"])
    mail, billing = await put(store), await put(store, queue="billing")
    assert await claimed_ids(store, queues=[QUEUE, "billing"]) == []
    await twin.resume([QUEUE])
    assert await claimed_ids(store, queues=[QUEUE, "billing"]) == [mail]
    await twin.resume(["billing"])
    assert await claimed_ids(store, queues=[QUEUE, "billing"]) == [billing]


async def test_running_jobs_of_a_paused_queue_go_on(store: Store) -> None:
    """A pause does not stop running jobs, and they can be settled."""
    ends, moves = await running(store), await running(store)
    await store.pause([QUEUE])
    await settled(store, succeed(ends), move(moves))
    assert await state_of(store, ends.id) is State.SUCCEEDED
    assert await claimed_ids(store) == []


async def test_a_claim_from_a_paused_queue_names_no_next_due_time(store: Store) -> None:
    """I14 bounded: workers do not claim again and again from a queue that is paused."""
    await put(store)
    await put(store, when=When(LONG))
    await store.pause([QUEUE])
    for limit in (0, 10):
        assert (await store.claim([QUEUE], limit, LONG, "w1")).again is None


async def test_a_pause_is_shown_with_its_beginning(store: Store, clock: Ticker) -> None:
    """`queues` shows since when a queue is paused; pausing it again does not change that."""
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


async def test_pausing_and_resuming_an_unknown_queue_is_allowed(store: Store) -> None:
    """An empty list, or a queue that does not exist, is no error."""
    await store.resume(["nobody"])
    await store.pause([])
    await store.resume([])
    assert await store.queues() == []


async def test_a_pause_keeps_every_job_as_it_is(store: Store) -> None:
    """I13 conservation: pausing and resuming a queue changes none of its jobs."""
    ids = [await put(store), await put(store, when=When(LONG))]
    before = [await look(store, id) for id in ids]
    await store.pause([QUEUE])
    await claimed_ids(store)
    await store.resume([QUEUE])
    assert [await look(store, id) for id in ids] == before
