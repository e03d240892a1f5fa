"""How schedulers wait, wake up, share the work, fail and stop. On every store, in real time."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from mita import All, Every, StoreError
from mita.engine import backoff
from mita.engine.scheduler import Scheduler
from mita.engine.scheduler_process import StandaloneScheduler
from mita.model.repeat import DueRepeats, Firing
from mita.model.time import SECOND
from tests.waiting import until

from .given import KEY, Scene

LONG = 30.0  # a scheduler that polls this seldom must have been woken
KEYS, FIRES = 10, 100


@asynccontextmanager
async def at_work(*schedulers: Scheduler | StandaloneScheduler) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(scheduler.run()) for scheduler in schedulers]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended), ended


async def test_five_schedulers_without_a_lock_fire_each_time_exactly_once(live: Scene) -> None:
    """I7"""
    for n in range(KEYS):
        await live.app.repeat(
            f"k{n}", live.digest.call(), Every(0.02), limit=FIRES, missed=All(10_000)
        )
    five = [Scheduler(await live.another(), 0.05, 0, f"s{n}") for n in range(5)]

    async def over() -> bool:
        return all(repeat.state == "finished" for repeat in await live.app.repeats.all())

    async with at_work(*five):
        await until(over, "all have fired as often as they may", 60)
    for n in range(KEYS):
        times = await live.fired(f"k{n}")
        assert {later - earlier for earlier, later in pairwise(times)} == {20}
        assert len(times) == FIRES == (await live.repeat(f"k{n}")).count


async def test_a_waiting_scheduler_is_notified_of_a_new_repeat_and_fires_on_time(
    live: Scene,
) -> None:
    alone = live.app.scheduler(lock=0, poll=LONG)
    async with at_work(alone):
        await asyncio.sleep(0.3)
        start = datetime.now(UTC) + timedelta(seconds=0.5)
        await live.app.repeat(KEY, live.digest.call(), Every(3600), start_after=start)

        async def made() -> bool:
            return bool(await live.jobs())

        await until(made, "it fires")
    [job] = await live.jobs()
    assert job.fire_time is not None
    assert 0 <= job.created - job.fire_time < LONG * SECOND / 2, "neither late nor early"


async def test_a_worker_is_notified_of_a_new_repeat_too(live: Scene) -> None:
    worker = live.app.worker(poll=LONG, schedule_lock=0, lease=60)
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0.5)
    await live.app.repeat(KEY, live.digest.call(), Every(0.1), limit=3)

    async def done() -> bool:
        return [job.state for job in await live.jobs()] == ["succeeded"] * 3

    await until(done, "it fires and runs")
    worker.stop()
    await running


async def test_a_worker_with_schedule_false_fires_nothing(live: Scene) -> None:
    worker = live.app.worker(poll=0.05, schedule=False)
    running = asyncio.create_task(worker.run())
    await live.app.repeat(KEY, live.digest.call(), Every(0.01))
    await asyncio.sleep(0.3)
    worker.stop()
    await running
    assert await live.jobs() == []


async def test_more_repeats_than_a_batch_fire_without_a_pause(
    live: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mita.engine.scheduler.BATCH_REPEATS", 20)
    monkeypatch.setattr("mita.engine.scheduler.FIRE_JOBS", 15)
    now = await live.store.now()
    for n in range(70):
        await live.stands(Every(3600), now - SECOND, f"k{n}")

    async def all_fired() -> bool:
        return all(repeat.count == 1 for repeat in await live.store.list_repeats())

    async with at_work(Scheduler(await live.another(), LONG, 0, "s")):
        await until(all_fired, "all have fired")


# ---------------------------------------------------------------- the lock


async def test_with_a_lock_one_scheduler_works_and_another_takes_over(
    live: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mita.scheduler")
    await live.app.repeat(KEY, live.digest.call(), Every(0.02), missed=All(10_000))
    first, second = (live.app.scheduler(lock=LONG, poll=LONG) for _ in range(2))
    running = asyncio.create_task(first.run())

    async def first_leads() -> bool:
        return first.leads and len(await live.jobs()) > 3

    await until(first_leads, "the first leads")
    async with at_work(second):
        await asyncio.sleep(0.3)
        assert (second.leads, second.changes) == (False, (0, 0))
        first.stop()
        await running

        async def second_leads() -> bool:
            return second.leads

        await until(second_leads, "the second takes over as soon as the first has left", LONG / 2)
    assert (first.changes, second.changes) == ((1, 0), (1, 0))
    assert sum("is now the repeat leader" in line for line in caplog.messages) == 2
    times = await live.fired()
    assert {later - earlier for earlier, later in pairwise(times)} == {20}


async def test_a_scheduler_that_was_stopped_too_long_has_lost_its_lock(live: Scene) -> None:
    one = Scheduler(await live.another(), 0.05, 0.3, "one")
    async with at_work(one):

        async def leads() -> bool:
            return one.leads

        await until(leads, "it leads")

        async def taken() -> bool:
            """Take the lock while its holder sleeps. Its own renewals prevent that until one is
            late."""
            await live.store.unlock("scheduler", "one")
            return await live.store.lock("scheduler", "two", 60_000)

        await until(taken, "another takes the lock")

        async def lost() -> bool:
            return not one.leads

        await until(lost, "it notices")
        assert one.gained == one.lost >= 1


# ---------------------------------------------------------------- trouble


class FailingStore:
    """A store that fails for some calls."""

    def __init__(self, store: Any, failures: int) -> None:
        self._store, self._failures = store, failures
        self.asked: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def due_repeats(self, limit: int) -> DueRepeats:
        self.asked.append(asyncio.get_running_loop().time())
        if len(self.asked) <= self._failures:
            raise StoreError("the connection is closed", transient=True)
        answer: DueRepeats = await self._store.due_repeats(limit)
        return answer

    async def fire(self, firings: Sequence[Firing]) -> list[bool]:
        won: list[bool] = await self._store.fire(firings)
        if len(self.asked) == self._failures + 1:
            raise StoreError("the answer was lost", transient=True)
        return won


async def test_errors_of_the_store_are_waited_out_with_growing_delays_and_nothing_fires_twice(
    live: Scene,
) -> None:
    """I7: also when the answer to a fire is lost."""
    failing_store = FailingStore(await live.another(), 4)
    await live.stands(Every(3600), await live.store.now())
    store: Any = failing_store
    async with at_work(Scheduler(store, 0.05, 0, "s")):

        async def calm() -> bool:
            return len(failing_store.asked) > 7

        await until(calm, "it goes on")
    waits = [later - earlier for earlier, later in pairwise(failing_store.asked)]
    for wait, least in zip(waits, (0.025, 0.05, 0.1, 0.2), strict=False):
        assert wait >= least * 0.9
    assert (len(await live.jobs()), (await live.repeat()).count) == (1, 1)


async def test_attempts_are_close_together_while_the_store_is_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So repeats are hardly late when the store is back."""
    waits: list[float] = []

    class Away:
        async def lock(self, *_: object) -> bool:
            if len(waits) >= 12:
                raise EnoughSeen
            raise StoreError("the store is away", transient=True)

    class EnoughSeen(Exception): ...

    async def noted(seconds: float, _: asyncio.Event) -> None:
        waits.append(seconds)

    monkeypatch.setattr(backoff, "wait_up_to", noted)
    with pytest.raises(EnoughSeen):
        await Scheduler(Away(), 1.0, 3.0, "one").run()  # type: ignore[arg-type]
    assert len(waits) == 12
    assert max(waits) <= 0.4
