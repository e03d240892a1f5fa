"""Listeners in the same process: they hear what happened, and can hurt nobody."""

import asyncio
import logging
import threading
from collections import Counter

import pytest

from mita import Abort, JobEvent, Mita, Reschedule, Retry, UsageError
from mita.events import listener
from mita.model.event import Kind
from tests.engine.conftest import until_state, working
from tests.waiting import until


class Subscription:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.heard: list[JobEvent] = []

    def __call__(self, events: list[JobEvent]) -> None:
        self.heard += events

    def of(self, id: str) -> list[str]:
        return [
            event.kind + (f":{event.reason}" if event.reason else "")
            for event in self.heard
            if event.id == id
        ]


@pytest.fixture
def memory() -> Mita:
    return Mita("memory://")


async def test_a_listener_hears_the_whole_life_of_a_job(memory: Mita) -> None:
    runs: Counter[str] = Counter()

    @memory.task(retry=Retry(max_retries=1, base=0.01))
    async def ends(how: str) -> None:
        runs[how] += 1
        if how == "moves" and runs[how] == 1:
            raise Reschedule(after=0.01)
        if how == "aborts":
            raise Abort("no")
        if how == "fails" or (how == "recovers" and runs[how] == 1):
            raise RuntimeError("a secret")

    ear = Subscription()
    listening = memory.listen(ear)
    async with working(memory):
        jobs = {
            how: (await ends.enqueue(how)).id
            for how in ("works", "moves", "aborts", "fails", "recovers")
        }
        for how, id in jobs.items():
            await until_state(memory, id, "failed" if how in ("aborts", "fails") else "succeeded")
    listening.stop()
    assert ear.of(jobs["works"]) == ["enqueued", "started", "succeeded"]
    assert ear.of(jobs["moves"]) == [
        "enqueued",
        "started",
        "rescheduled:handler",
        "started",
        "succeeded",
    ]
    assert ear.of(jobs["aborts"]) == ["enqueued", "started", "failed"]
    assert ear.of(jobs["fails"]) == ["enqueued", "started", "retried", "started", "failed"]
    assert ear.of(jobs["recovers"]) == ["enqueued", "started", "retried", "started", "succeeded"]
    assert not any("secret" in repr(event) for event in ear.heard)
    assert all(event.task and event.queue == "default" and event.at for event in ear.heard)
    assert listening.dropped == listening.failed == 0


async def test_a_listener_hears_what_people_ask(memory: Mita) -> None:
    @memory.task
    async def later() -> None: ...

    ear = Subscription()
    listening = memory.listen(ear)
    job = await later.after(3600).enqueue()
    await memory.reschedule(job.id, after=60)
    await memory.cancel(job.id)
    await memory.cancel(job.id)  # too late, so nothing happened
    await memory.retry(job.id)
    listening.stop()
    assert ear.of(job.id) == ["enqueued", "rescheduled:api", "cancelled", "revived"]
    assert {event.task for event in ear.heard} == {later.name}


async def test_a_listener_that_raises_is_logged_once_and_goes_on(
    memory: Mita, caplog: pytest.LogCaptureFixture
) -> None:
    @memory.task
    async def work() -> None: ...

    ear = Subscription()

    def raises(events: list[JobEvent]) -> None:
        ear(events)
        raise RuntimeError("the listener's own fault")

    listening = memory.listen(raises)
    with caplog.at_level(logging.ERROR, logger="mita.events"):
        async with working(memory):
            for _ in range(3):
                await (await work.enqueue()).result(timeout=20)
        listening.stop()
    assert sum(event.kind == Kind.SUCCEEDED for event in ear.heard) == 3
    assert listening.failed > 1
    assert len([record for record in caplog.records if record.name == "mita.events"]) == 1


async def test_a_listener_that_hangs_loses_events_and_holds_up_no_job(
    memory: Mita, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "MOST_WAITING_EVENTS", 50)
    monkeypatch.setattr(listener, "STOP_TIMEOUT_S", 20.0)

    @memory.task
    async def work() -> None: ...

    ear, go_on = Subscription(), threading.Event()

    def hangs(events: list[JobEvent]) -> None:
        go_on.wait(60)
        ear(events)

    listening = memory.listen(hangs)
    async with working(memory):
        jobs = await memory.enqueue_many([work.call() for _ in range(20)])
        await asyncio.gather(*(job.result(timeout=20) for job in jobs))
        await memory.enqueue_many([work.call() for _ in range(200)])

        async def done() -> bool:
            return (await memory.counts())["default"]["succeeded"] == 220

        await until(done)
        assert listening.dropped
        go_on.set()
        listening.stop()
    told = sum(event.count for event in ear.heard if event.kind == Kind.MISSED)
    assert told == listening.dropped
    assert len([event for event in ear.heard if event.kind != Kind.MISSED]) + told == 3 * 220


async def test_one_that_has_stopped_hears_no_more(memory: Mita) -> None:
    @memory.task
    async def work() -> None: ...

    ear = Subscription()
    listening = memory.listen(ear)
    await work.enqueue()
    listening.stop()
    await work.enqueue()
    assert len(ear.heard) == 1


async def test_who_wants_only_some_kinds_hears_of_no_others(memory: Mita) -> None:
    @memory.task(retry=Retry(max_retries=0))
    async def ends(well: bool) -> None:
        if not well:
            raise RuntimeError

    ears = {"failed": Subscription(), "started": Subscription(), "succeeded": Subscription()}
    all_of_it = Subscription()
    listening = [memory.listen(ear, kinds=[kind]) for kind, ear in ears.items()] + [
        memory.listen(all_of_it)
    ]
    async with working(memory), memory.events(kinds=["failed"]) as events:
        jobs = await memory.enqueue_many([ends.call(n > 1) for n in range(20)])
        for job in jobs:
            await until_state(memory, job.id, "succeeded" if job not in jobs[:2] else "failed")
        heard = [await anext(events) for events in [aiter(events)] for _ in range(2)]
    for one in listening:
        one.stop()
    for kind, ear in ears.items():
        assert ear.heard
        assert ear.heard == [event for event in all_of_it.heard if event.kind == kind]
    assert (
        {event.id for event in heard}
        == {job.id for job in jobs[:2]}
        == {event.id for event in ears["failed"].heard}
    )


@pytest.mark.parametrize(
    ("kinds", "says"),
    [("failed", r"give a list, \['failed'\]"), (["fail"], "no 'fail'; there are enqueued, ")],
)
def test_a_kind_that_is_none_is_answered_with_those_there_are(
    memory: Mita, kinds: list[str], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        memory.listen(print, kinds=kinds)
    with pytest.raises(UsageError, match=says):
        memory.events(kinds=kinds)


def test_what_cannot_be_called_cannot_listen(memory: Mita) -> None:
    with pytest.raises(UsageError, match="give a function"):
        memory.listen("events")  # type: ignore[arg-type]
