"""Events across processes: what any worker or caller does is heard by whoever listens, on every
store."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mita import Job, JobEvent, Mita, Retry, UsageError
from mita.client import Events
from mita.events import publisher
from mita.model.event import Kind
from mita.ports.pubsub import EventMessage
from mita.stores.memory import MemoryStore
from tests.engine.conftest import TIMEOUT_S, until_state, working
from tests.waiting import until


class Log:
    """What was heard, read by a task of its own."""

    def __init__(self) -> None:
        self.heard: list[JobEvent] = []
        self._news = asyncio.Event()

    async def read(self, events: Events) -> None:
        async for event in events:
            self.heard.append(event)
            self._news.set()

    def of(self, id: str) -> list[str]:
        return [
            event.kind + (f":{event.reason}" if event.reason else "")
            for event in self.heard
            if event.id == id
        ]

    async def until(self, id: str, last: str) -> list[str]:
        async with asyncio.timeout(TIMEOUT_S):
            while last not in self.of(id):
                self._news.clear()
                await self._news.wait()
        return self.of(id)


@asynccontextmanager
async def listening(app: Mita, queue: str | None = None) -> AsyncIterator[Log]:
    log = Log()
    async with app.events(queue) as events:
        reading = asyncio.create_task(log.read(events))
        yield log
    await reading  # closing ends the loop


async def test_sleeps_waits_and_signals_are_heard(app: Mita) -> None:
    @app.task
    async def ask(job: Job) -> None:
        await job.sleep(1)
        await job.wait_for("go")

    async with listening(app) as log, working(app):
        job = await ask.enqueue()
        await log.until(job.id, "rescheduled:signal")
        await app.signal(job.id, "go", "a value")
        assert await app.signal(job.id, "go", "another") != "done"
        await log.until(job.id, "succeeded")
        heard = await log.until(job.id, "signalled")
    assert sorted(each for each in heard if each != "started") == [
        "enqueued",
        "rescheduled:signal",
        "rescheduled:sleep",
        "signalled",
        "succeeded",
    ]
    assert "a value" not in str(log.heard)


async def test_the_whole_life_of_a_job_is_heard(app: Mita) -> None:
    runs = 0

    @app.task(retry=Retry(max_retries=1, base=0.01))
    async def second_time_lucky() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise RuntimeError("a secret")

    async with listening(app) as log, working(app) as worker:
        job = await second_time_lucky.enqueue()
        life = await log.until(job.id, "succeeded")
        assert sorted(life) == sorted(["enqueued", "started", "retried", "started", "succeeded"])
        assert [what for what in life if what != "enqueued"] == [
            "started",
            "retried",
            "started",
            "succeeded",
        ]
        ends = [event for event in log.heard if event.kind == Kind.SUCCEEDED]
        assert [(event.task, event.queue, event.worker, event.attempt) for event in ends] == [
            (second_time_lucky.name, "default", worker.id, 2)
        ]
        assert "secret" not in repr(log.heard)


async def test_what_people_ask_is_heard(app: Mita) -> None:
    @app.task
    async def later() -> None: ...

    async with listening(app) as log:
        job = await later.after(3600).enqueue()
        await app.reschedule(job.id, after=60)
        await app.cancel(job.id)
        assert await log.until(job.id, "cancelled") == ["enqueued", "rescheduled:api", "cancelled"]
        assert {event.task for event in log.heard} == {later.name}


async def test_one_queue_alone_is_heard(app: Mita) -> None:
    @app.task
    async def work() -> None: ...

    async with listening(app, "billing") as log, working(app):
        other = await work.enqueue()
        await until_state(app, other.id, "succeeded")
        mine = await work.options(queue="billing").enqueue()
        await log.until(mine.id, "succeeded")
        assert {event.queue for event in log.heard} == {"billing"}


async def test_a_loop_that_is_left_or_cancelled_listens_no_more(app: Mita) -> None:
    @app.task
    async def work() -> None: ...

    store = await app.open_store()

    async def one() -> JobEvent:
        async for event in app.events():
            return event
        raise AssertionError("it ended by itself")

    async def heard_by_somebody() -> None:
        await until(store.subscribed_queues)

    async def nobody_listens() -> bool:
        return not await store.subscribed_queues()

    async def heard_by_nobody() -> None:
        await until(nobody_listens)

    first = asyncio.create_task(one())
    await heard_by_somebody()
    await work.enqueue()
    assert (await first).kind == Kind.ENQUEUED
    await heard_by_nobody()
    second = asyncio.create_task(one())
    await heard_by_somebody()
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await heard_by_nobody()
    await store.close()


async def test_closing_the_app_ends_the_loop() -> None:
    app, ended = Mita("memory://"), asyncio.Event()
    events = await app.events().__aenter__()

    async def read() -> None:
        async for _ in events:
            pass
        ended.set()

    reading = asyncio.create_task(read())
    await asyncio.sleep(0)
    await app.close()
    async with asyncio.timeout(TIMEOUT_S):
        await reading
    assert ended.is_set(), "the loop ended, and was not cancelled"


async def test_where_nobody_listens_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    app, told, asked = Mita("memory://"), list[EventMessage](), 0
    whole = MemoryStore.subscribed_queues

    async def subscribed_queues(self: MemoryStore) -> frozenset[str]:
        nonlocal asked
        asked += 1
        return await whole(self)

    async def publish(self: MemoryStore, events: list[EventMessage]) -> None:
        told.extend(events)

    monkeypatch.setattr(MemoryStore, "subscribed_queues", subscribed_queues)
    monkeypatch.setattr(MemoryStore, "publish", publish)

    @app.task
    async def work() -> None: ...

    async with working(app):
        jobs = await app.enqueue_many([work.call() for _ in range(500)])
        await asyncio.gather(*(job.result(timeout=TIMEOUT_S) for job in jobs))
    await app.close()
    assert asked
    assert not told


async def test_a_store_that_cannot_be_told_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It hangs at the first question; jobs go on, and what cannot wait any more is dropped."""
    monkeypatch.setattr(publisher, "MOST_WAITING_EVENTS", 50)
    monkeypatch.setattr(publisher, "CLOSE_TIMEOUT_S", 0.01)
    app, asked = Mita("memory://"), asyncio.Event()

    async def hangs(self: MemoryStore) -> frozenset[str]:
        asked.set()
        await asyncio.sleep(3600)
        return frozenset()

    monkeypatch.setattr(MemoryStore, "subscribed_queues", hangs)

    @app.task
    async def work() -> None: ...

    with caplog.at_level(logging.WARNING):
        async with working(app):
            jobs = await app.enqueue_many([work.call() for _ in range(500)])
            await asyncio.gather(*(job.result(timeout=TIMEOUT_S) for job in jobs))
            await asked.wait()
    await app.close()
    assert not caplog.records


def test_a_wrong_name_of_a_queue_is_refused() -> None:
    with pytest.raises(UsageError, match="queue"):
        Mita("memory://").events("no/such queue\n")
