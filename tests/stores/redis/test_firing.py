"""Firings whose jobs cannot be made in the same act: on a cluster."""

from mita.model.repeat import Firing, Repeat
from mita.model.time import When
from mita.stores.redis import RedisStore, repeats
from mita.testing.contract.clocks import FakeTicker

from .load import QUEUE, jobs


async def planned(store: RedisStore, many: int) -> Firing:
    repeat = await store.put_repeat(Repeat(key="digest", spec=b"", cursor=await store.now()))
    assert repeat.cursor is not None
    made = tuple(jobs(many, when=When(at=repeat.cursor)))
    return Firing(
        key="digest",
        cursor=repeat.cursor,
        revision=0,
        next=repeat.cursor + 1,
        fired=many,
        last=repeat.cursor,
        jobs=made,
    )


async def test_jobs_of_a_firing_whose_process_died_are_enqueued_by_a_reap(
    store: RedisStore, twin: RedisStore, clock: FakeTicker
) -> None:
    """I1 I7"""
    firing = await planned(store, 3)
    parcel = repeats._pack(firing.jobs)
    assert await repeats._compare_and_set(store.context, [(firing, parcel, 0)], [], []) == [True]
    assert await twin.queues() == []
    assert await twin.reap(10, 1000, "w2") == []
    assert await twin.queues() == [], "the winner still has time"
    await clock.tick(repeats.DELIVERY_TIMEOUT_MS)
    await twin.reap(10, 1000, "w2")
    await twin.reap(10, 1000, "w2")
    assert {claim.id for claim in (await twin.claim([QUEUE], 10, 1000, "w2")).claims} == {
        job.id for job in firing.jobs
    }
