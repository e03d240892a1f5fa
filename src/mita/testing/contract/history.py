"""The history of runs: counts per minute and per hour."""

import asyncio

from mita.model.history import HOURS_KEPT_MS, MINUTES_KEPT_MS, RunCounts, StoredCounts
from mita.model.time import DAY, HOUR, MINUTE, SECOND, Moment
from mita.ports.store import Can, Store

from .clocks import Ticker
from .given import QUEUE, needs

WRITER_CALLS = 20  # of each of four writers at once


def counts(queue: str = QUEUE, task: str = "send", **numbers: int) -> RunCounts:
    """Counts of one task in one queue."""
    return RunCounts(queue=queue, task=task, **numbers)


async def shown(
    store: Store,
    *,
    hourly: bool = False,
    since: Moment = 0,
    queue: str | None = None,
    task: str | None = None,
) -> list[StoredCounts]:
    """Everything that the store shows, or what the filters let through."""
    return await store.run_history(since, hourly, queue, task)


def total(rows: list[StoredCounts], number: str = "succeeded") -> int:
    """The sum of one number over all rows."""
    return sum(getattr(row, number) for row in rows)


async def next_minute(store: Store, clock: Ticker) -> Moment:
    """Let time pass until a new minute begins, at most an hour later a new hour too."""
    await clock.tick(MINUTE - await store.now() % MINUTE)
    return await store.now()


async def test_counts_are_shown_as_they_were_added(store: Store, twin: Store) -> None:
    """Every number comes back, in the current minute and in the current hour."""
    before = await store.now()
    numbers = {
        "succeeded": 1,
        "failed": 2,
        "retried": 3,
        "rescheduled": 4,
        "cancelled": 5,
        "run_ms": 2**40,
        "wait_ms": 7,
    }
    await store.count_runs([counts(QUEUE, "send", **numbers)])
    after = await store.now()
    for hourly, span in ((False, MINUTE), (True, HOUR)):
        rows = await shown(twin, hourly=hourly)
        assert len(rows) == 1
        row = rows[0]
        assert row.at in (before - before % span, after - after % span)
        assert row == StoredCounts(at=row.at, queue=QUEUE, task="send", **numbers)


async def test_counts_of_no_runs_change_nothing(store: Store) -> None:
    """An empty list is allowed."""
    await store.count_runs([])
    assert await shown(store) == await shown(store, hourly=True) == []


async def test_counts_add_up(store: Store, twin: Store) -> None:
    """Counts of several calls, and several counts of one call, are added."""
    await store.count_runs([counts(succeeded=1, run_ms=10), counts(succeeded=2, failed=1)])
    await twin.count_runs([counts(succeeded=4, wait_ms=3)])
    for hourly in (False, True):
        rows = await shown(store, hourly=hourly)
        sums = [total(rows, name) for name in ("succeeded", "failed", "run_ms", "wait_ms")]
        assert sums == [7, 1, 10, 3]


async def test_two_workers_that_add_at_once_lose_nothing(store: Store, twin: Store) -> None:
    """I3: each flush is added in one atomic operation, whatever other workers do meanwhile."""

    async def add(one: Store, own: str) -> None:
        for n in range(WRITER_CALLS):
            pairs = [counts(task=task, succeeded=1, run_ms=n) for task in ("a", "b", own)]
            await one.count_runs(pairs if n % 2 else pairs[::-1])

    await asyncio.gather(add(store, "c"), add(twin, "d"), add(store, "c"), add(twin, "d"))
    for hourly in (False, True):
        sums = {task: total(await shown(twin, hourly=hourly, task=task)) for task in "abcd"}
        assert sums == {
            "a": 4 * WRITER_CALLS,
            "b": 4 * WRITER_CALLS,
            "c": 2 * WRITER_CALLS,
            "d": 2 * WRITER_CALLS,
        }


async def test_filters_by_queue_and_task(store: Store) -> None:
    """A queue, a task or both can be chosen; any name is found as it is."""
    odd = "caf\u00e9 *.> \n {x}"
    pairs = [("a", "t"), ("b", "t"), ("b", "u"), (odd, "t"), ("b", odd), ("", "")]
    for n, (queue, task) in enumerate(pairs):
        await store.count_runs([counts(queue, task, succeeded=2**n)])
    expected = {
        (None, None): 63,
        ("a", None): 1,
        ("b", None): 2 + 4 + 16,
        (None, "t"): 1 + 2 + 8,
        ("b", "t"): 2,
        (odd, None): 8,
        ("b", odd): 16,
        ("", ""): 32,
        ("c", None): 0,
        ("a", "u"): 0,
    }
    for (of_queue, of_task), sum_of in expected.items():
        for hourly in (False, True):
            found = await shown(store, hourly=hourly, queue=of_queue, task=of_task)
            assert total(found) == sum_of, (of_queue, of_task)


async def test_rows_are_in_order(store: Store, clock: Ticker) -> None:
    """Oldest first, and within a minute by queue and task."""
    for queue, task in (("b", "x"), ("B", "x"), ("a", "z"), ("a", "y")):
        await store.count_runs([counts(queue, task, succeeded=1)])
    if clock.fake:
        await next_minute(store, clock)
        await store.count_runs([counts("a", "y", succeeded=1)])
    rows = [(row.at, row.queue, row.task) for row in await shown(store)]
    assert rows == sorted(rows)
    assert len(rows) >= (5 if clock.fake else 4)


async def test_each_minute_and_each_hour_has_its_own_counts(store: Store, clock: Ticker) -> None:
    """The store's clock decides to which minute and hour counts belong."""
    needs(store, Can.OBEY_A_FAKE_CLOCK)
    first = await next_minute(store, clock)
    await store.count_runs([counts(succeeded=1)])
    await clock.tick(MINUTE - 1)
    await store.count_runs([counts(succeeded=2)])
    await clock.tick(1)
    await store.count_runs([counts(succeeded=4)])
    await clock.tick(HOUR)
    await store.count_runs([counts(succeeded=8)])
    found = [(row.at - first, row.succeeded) for row in await shown(store)]
    assert found == [(0, 3), (MINUTE, 4), (MINUTE + HOUR, 8)]
    hours = await shown(store, hourly=True)
    assert [row.at % HOUR for row in hours] == [0] * len(hours)
    assert total(hours) == 15
    assert len(hours) == len({moment - moment % HOUR for moment in _moments(first)})


def _moments(first: Moment) -> list[Moment]:
    return [first, first + MINUTE - 1, first + MINUTE, first + MINUTE + HOUR]


async def test_the_history_begins_with_the_minute_of_since(store: Store, clock: Ticker) -> None:
    """`since` in the middle of a minute shows that whole minute, and nothing before it."""
    needs(store, Can.OBEY_A_FAKE_CLOCK)
    first = await next_minute(store, clock)
    for n in range(3):
        await store.count_runs([counts(succeeded=2**n)])
        await clock.tick(MINUTE)
    for since, sum_of in (
        (first, 7),
        (first + MINUTE - 1, 7),
        (first + MINUTE, 6),
        (first + 2 * MINUTE + 30 * SECOND, 4),
        (first + 3 * MINUTE, 0),
        (first + DAY, 0),
    ):
        assert total(await shown(store, since=since)) == sum_of
    assert total(await shown(store, hourly=True, since=first)) == 7


async def test_minutes_are_kept_for_a_day_and_hours_for_ninety(store: Store, clock: Ticker) -> None:
    """What is older is not shown, whether it was pruned or not; what is kept survives a prune."""
    needs(store, Can.OBEY_A_FAKE_CLOCK)
    await next_minute(store, clock)
    await store.count_runs([counts(succeeded=1)])
    await clock.tick(MINUTES_KEPT_MS)
    await store.prune(10, 10)
    assert total(await shown(store)) == 1
    await clock.tick(MINUTE)
    assert await shown(store) == []
    await store.prune(10, 10)
    assert await shown(store) == []
    await clock.tick(HOURS_KEPT_MS - MINUTES_KEPT_MS - MINUTE)
    await store.prune(10, 10)
    assert total(await shown(store, hourly=True)) == 1
    await clock.tick(HOUR)
    assert await shown(store, hourly=True) == []
    await store.prune(10, 10)
    await store.count_runs([counts(succeeded=2)])
    assert total(await shown(store)) == total(await shown(store, hourly=True)) == 2


async def test_many_pairs_in_one_call(store: Store) -> None:
    """A worker may send a thousand pairs of queue and task at once."""
    pairs = [counts(f"q{n % 10}", f"t{n:03}", succeeded=n) for n in range(1000)]
    await store.count_runs(pairs)
    await store.count_runs(pairs)
    for hourly in (False, True):
        rows = await shown(store, hourly=hourly)
        assert len({(row.queue, row.task) for row in rows}) == 1000
        assert total(rows) == 999 * 1000
        assert total(await shown(store, hourly=hourly, queue="q3", task="t013")) == 26
