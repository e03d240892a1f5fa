"""Which job goes first: by queue as the claim names them, then by priority, due time and age."""

from mita.model.outcome import Answer, PrioritiseJob, RescheduleJob
from mita.model.time import NOW, When
from mita.ports.store import Can, Store

from .clocks import Ticker
from .given import (
    LONG,
    PAST,
    QUEUE,
    SHORT,
    claim_one,
    claimed_ids,
    move,
    needs,
    put,
    put_many,
    retry,
    settled,
)


async def test_the_higher_priority_goes_first(store: Store) -> None:
    """Jobs are claimed by priority, the highest first."""
    needs(store, Can.KEEP_EXACT_ORDER)
    ids = {priority: await put(store, priority=priority) for priority in (5, 0, 9, 3)}
    assert await claimed_ids(store) == [ids[9], ids[5], ids[3], ids[0]]


async def test_of_equal_priority_the_job_due_first_goes_first(store: Store, clock: Ticker) -> None:
    """Among jobs of one priority the due time decides."""
    needs(store, Can.KEEP_EXACT_ORDER)
    late = await put(store, when=When(SHORT))
    early = await put(store, when=When(SHORT // 2))
    first = await put(store)
    await clock.tick(PAST)
    assert await claimed_ids(store) == [first, early, late]


async def test_among_jobs_due_together_the_older_goes_first(store: Store, clock: Ticker) -> None:
    """Among jobs with one due time the one that was enqueued first goes first."""
    needs(store, Can.KEEP_EXACT_ORDER)
    at = When(at=await store.now() + SHORT)
    ids = await put_many(store, 5, when=at)
    await clock.tick(PAST)
    assert await claimed_ids(store, 3) == ids[:3]
    assert await claimed_ids(store, 3) == ids[3:]


async def test_age_is_the_order_of_arrival_and_not_of_ids(store: Store, clock: Ticker) -> None:
    """The order of the enqueues decides, not the order of the ids."""
    needs(store, Can.KEEP_EXACT_ORDER)
    at = When(at=await store.now() + SHORT)
    ids = [f"{n:032x}" for n in (7, 3, 9, 1)]
    for id in ids:
        await put(store, id=id, when=at)
    await clock.tick(PAST)
    assert await claimed_ids(store) == ids


async def test_priority_comes_before_due_time(store: Store, clock: Ticker) -> None:
    """A job of higher priority goes first even if it was due later."""
    needs(store, Can.KEEP_EXACT_ORDER)
    low = await put(store, priority=1)
    high = await put(store, priority=2, when=When(SHORT))
    await clock.tick(PAST)
    assert await claimed_ids(store) == [high, low]


async def test_queues_are_served_in_the_order_asked(store: Store) -> None:
    """A claim serves its queues in the order in which it names them."""
    needs(store, Can.KEEP_EXACT_ORDER)
    mail = await put(store, priority=9)
    billing = await put(store, queue="billing", priority=0)
    assert await claimed_ids(store, 2, queues=["billing", QUEUE]) == [billing, mail]


async def test_a_retried_job_keeps_its_priority(store: Store) -> None:
    """A failed attempt does not change the place of the job in the queue."""
    needs(store, Can.KEEP_EXACT_ORDER)
    high = await put(store, priority=8)
    await put(store, priority=4)
    await settled(store, retry(await claim_one(store)))
    assert (await claim_one(store)).id == high


async def test_a_postponed_job_keeps_its_priority(store: Store, clock: Ticker) -> None:
    """A job that reschedules itself keeps its priority."""
    needs(store, Can.KEEP_EXACT_ORDER)
    high = await put(store, priority=8)
    low = await put(store, priority=4)
    await settled(store, move(await claim_one(store), When(SHORT)))
    await clock.tick(PAST)
    await store.amend([low], RescheduleJob(NOW))
    assert await claimed_ids(store) == [high, low]


async def test_a_new_priority_counts_at_once(store: Store) -> None:
    """The next claim follows a priority that was changed."""
    needs(store, Can.KEEP_EXACT_ORDER)
    one, two = await put_many(store, 2)
    assert await store.amend([two], PrioritiseJob(6)) == [Answer.DONE]
    assert await claimed_ids(store) == [two, one]


async def test_ahead_counts_the_jobs_that_go_first(store: Store) -> None:
    """`ahead` returns how many jobs go before this one, and None for a job that is not ready."""
    needs(store, Can.KEEP_EXACT_ORDER)
    low, old, new, high = [await put(store, priority=priority) for priority in (1, 5, 5, 9)]
    later = await put(store, when=When(LONG))
    other = await put(store, queue="billing")
    assert [await store.ahead(id) for id in (high, old, new, low, other)] == [0, 1, 2, 3, 0]
    assert await store.ahead(later) is None, "it is not in line yet"
    await claim_one(store)
    assert [await store.ahead(id) for id in (high, old, new)] == [None, 0, 1]
    assert await store.ahead("f" * 32) is None
