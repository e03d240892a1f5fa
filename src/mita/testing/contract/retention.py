"""Pruning ended jobs, and only those."""

from mita.model.job import State
from mita.model.outcome import CancelJob
from mita.model.time import HOUR
from mita.ports.store import Can, OnceValue, Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    PAST_SOON,
    QUEUE,
    SHORT,
    SOON,
    claim_one,
    claims,
    dead,
    done,
    fail,
    gone,
    needs,
    put,
    put_many,
    retry,
    running,
    settled,
    state_of,
    stop,
    succeed,
)

MANY_JOBS = 1_000_000


async def test_a_job_is_pruned_when_its_retention_is_over(store: Store, clock: Ticker) -> None:
    """I14 bounded: `prune` deletes ended jobs whose retention is over, and none before."""
    await put_many(store, 3)
    good, bad, stopped = await claims(store)
    await settled(store, succeed(good, keep=SOON), fail(bad, keep=SOON), stop(stopped, keep=SOON))
    cancelled = await put(store)
    await store.amend([cancelled], CancelJob(keep=SOON))
    kept = await dead(store)
    assert await store.prune(100, MANY_JOBS) == 0, "not before"
    await clock.tick(PAST_SOON)
    assert await store.prune(100, MANY_JOBS) == 4
    assert await store.prune(100, MANY_JOBS) == 0
    [view] = await store.queues()
    assert (view.succeeded, view.failed, view.cancelled) == (0, 1, 0)
    assert await state_of(store, kept) is State.FAILED


async def test_a_job_that_has_not_ended_is_never_pruned(store: Store, clock: Ticker) -> None:
    """I1 no loss: `prune` leaves running, blocked and queued jobs alone."""
    held = await running(store, resource="r", lease=SHORT)
    stuck = await put(store, resource="r")
    assert await claims(store) == []
    waiting = await put(store)
    await clock.tick(PAST)
    assert await store.prune(100, 0) == 0
    states = [await state_of(store, id) for id in (held.id, stuck, waiting)]
    assert states == [State.RUNNING, State.BLOCKED, State.QUEUED]


async def test_a_pruned_job_leaves_no_timeline(store: Store, clock: Ticker) -> None:
    """`prune` deletes the timeline with the job."""
    claim = await running(store)
    await settled(store, retry(claim))
    await settled(store, fail(await claim_one(store), keep=SHORT))
    await clock.tick(PAST)
    await store.prune(100, MANY_JOBS)
    assert await gone(store, claim.id)
    assert await store.timeline(claim.id) == []


async def test_prune_deletes_at_most_its_limit(store: Store, clock: Ticker) -> None:
    """I14 bounded: one call deletes at most `limit` jobs."""
    await put_many(store, 5)
    await settled(store, *(succeed(claim, keep=SHORT) for claim in await claims(store)))
    await clock.tick(PAST)
    assert [await store.prune(2, MANY_JOBS) for _ in range(4)] == [2, 2, 1, 0]


async def test_jobs_whose_retention_ended_first_are_pruned_first(
    store: Store, clock: Ticker
) -> None:
    """`prune` begins with the jobs whose retention ended first."""
    needs(store, Can.KEEP_EXACT_ORDER)
    await put_many(store, 2)
    first, second = await claims(store)
    await settled(store, succeed(first, keep=SHORT), succeed(second, keep=SHORT // 2))
    await clock.tick(PAST)
    assert await store.prune(1, MANY_JOBS) == 1
    assert await gone(store, second.id)
    assert not await gone(store, first.id)


async def test_of_succeeded_jobs_the_newest_stay(store: Store, clock: Ticker) -> None:
    """I14 bounded: beyond the number to keep, the oldest succeeded jobs are pruned."""
    ids = []
    for _ in range(4):
        ids.append(await done(store))
        await clock.tick(2)
    assert await store.prune(100, 3) == 1
    assert [await gone(store, id) for id in ids] == [True, False, False, False]
    assert await store.prune(100, 1) == 2
    assert [await gone(store, id) for id in ids] == [True, True, True, False]


async def test_the_oldest_surplus_jobs_are_pruned_first(store: Store, clock: Ticker) -> None:
    """A `prune` that may not delete the whole surplus begins with the job that ended first."""
    ids = []
    for _ in range(4):
        ids.append(await done(store))
        await clock.tick(2)
    assert await store.prune(1, 1) == 1
    assert [await gone(store, id) for id in ids] == [True, False, False, False]
    assert await store.prune(1, 1) == 1
    assert [await gone(store, id) for id in ids] == [True, True, False, False]


async def test_each_queue_keeps_its_own_newest(store: Store) -> None:
    """The number of succeeded jobs to keep counts for each queue."""
    for queue in ("a", "b"):
        for _ in range(3):
            await done(store, queue=queue)
    assert await store.prune(100, 2) == 2
    assert [view.succeeded for view in await store.queues()] == [2, 2]


async def test_failed_jobs_are_not_pruned_by_number(store: Store) -> None:
    """I15 never drop: the number to keep concerns succeeded jobs only."""
    kept = await dead(store)
    await done(store)
    assert await store.prune(100, 0) == 1
    assert await state_of(store, kept) is State.FAILED


async def test_shared_once_values_are_deleted_when_their_time_is_over(
    store: Store, clock: Ticker
) -> None:
    """`prune` deletes shared once values whose time is over and does not count them as jobs."""
    claim = await running(store)
    await store.store_once(OnceValue(claim=claim, name="short", value=b"1", keep=SHORT))
    await store.store_once(OnceValue(claim=claim, name="long", value=b"2", keep=HOUR))
    await clock.tick(PAST)
    assert await store.prune(100, MANY_JOBS) == 0, "once values are not jobs"
    assert await store.load_once(claim, "short", shared=True) is None
    assert await store.load_once(claim, "long", shared=True) == b"2"


async def test_pruning_leaves_other_jobs_and_their_keys_alone(store: Store, clock: Ticker) -> None:
    """A running job and its unique key stay while others are pruned."""
    claim = await running(store, unique="u", lease=LONG)
    await settled(store, succeed(await running(store), keep=SHORT))
    await clock.tick(PAST)
    assert await store.prune(100, MANY_JOBS) == 1
    await settled(store, succeed(claim))
    assert [view.succeeded for view in await store.queues() if view.name == QUEUE] == [1]
