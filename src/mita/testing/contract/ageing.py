"""Ageing: a ready job rises by one priority for each `ageing` that it waits."""

from mita.model.gate import Gate
from mita.ports.store import Can, Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    SHORT,
    claimed_ids,
    look,
    needs,
    put,
    running,
    settled,
    succeed,
)


async def test_without_ageing_priorities_are_strict(store: Store, clock: Ticker) -> None:
    """A store whose `ageing` is None starts the higher priority first, however long others wait."""
    needs(store, Can.KEEP_EXACT_ORDER)
    low = await put(store, priority=4)
    await clock.tick(PAST)
    high = await put(store, priority=5)
    assert await claimed_ids(store) == [high, low]


async def test_a_job_rises_while_it_waits(store: Store, clock: Ticker) -> None:
    """I9 no starvation: a job that waited longer than `ageing` goes before one of the next higher
    priority that came later, and still shows its own priority."""
    store.ageing = SHORT
    low = await put(store, priority=4)
    await clock.tick(PAST)
    high = await put(store, priority=5)
    assert await claimed_ids(store, 1) == [low]
    assert await claimed_ids(store, 1) == [high]
    assert (await look(store, low)).priority == 4


async def test_a_higher_priority_still_counts(store: Store, clock: Ticker) -> None:
    """A job that has risen by one does not go before a job that is three higher."""
    needs(store, Can.KEEP_EXACT_ORDER)
    store.ageing = SHORT
    low = await put(store, priority=4)
    await clock.tick(PAST)
    high = await put(store, priority=7)
    assert await claimed_ids(store) == [high, low]


async def test_a_steady_stream_of_higher_priority_starves_no_job(
    store: Store, clock: Ticker
) -> None:
    """I9 no starvation: under a stream of urgent jobs, a job of the lowest priority starts."""
    store.ageing = SHORT // 30
    low = await put(store, priority=0)
    for _ in range(60):
        await put(store, priority=9)
        await put(store, priority=9)
        await clock.tick(SHORT // 30)
        if low in await claimed_ids(store, 1):
            return
    raise AssertionError("the job of the lowest priority never started")


async def test_ahead_follows_ageing(store: Store, clock: Ticker) -> None:
    """`ahead` counts in the order in which the jobs start."""
    needs(store, Can.KEEP_EXACT_ORDER)
    store.ageing = SHORT
    low = await put(store, priority=4)
    await clock.tick(PAST)
    high = await put(store, priority=5)
    assert [await store.ahead(id) for id in (low, high)] == [0, 1]


async def test_jobs_of_several_priorities_all_start(store: Store, clock: Ticker) -> None:
    """With ageing a claim still finds every ready job, whatever its priority and keys are."""
    store.ageing = LONG
    holder = await running(store, resource="k")
    ids = [await put(store, priority=n % 10, gates=(Gate(f"g{n}", 1),)) for n in range(20)]
    waits = await put(store, resource="k", priority=0)
    await clock.tick(PAST)
    assert sorted(await claimed_ids(store, 50)) == sorted(ids)
    await settled(store, succeed(holder))
    assert await claimed_ids(store) == [waits]
