"""A repeat whose jobs fail too often in a row is paused: on every store."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from mita import Every, Mita, Retry
from mita.engine.repeat_reports import report_repeats
from mita.errors import StoreError
from mita.events import Counters, Signal
from mita.events.batches import batches_of
from mita.events.signals import RepeatPaused, ignore_signal
from mita.model.event import JobEvent, Kind
from mita.model.job import State
from mita.model.outcome import Settlement, Verdict
from mita.model.repeat import RepeatState
from mita.model.time import DAY, HOUR
from mita.rules.explain.evidence import ReasonCode
from mita.testing import lab
from mita.testing.contract.given import claim_one
from tests.waiting import until

from .given import KEY, Scene

DONE = Verdict(state=State.SUCCEEDED, result=b"\xc0", keep=DAY)
FAILED = Verdict(state=State.FAILED, error="ValueError: no such list\n  File …", keep=DAY)
STOPPED = Verdict(state=State.CANCELLED, keep=DAY)
AGAIN = Verdict(state=State.QUEUED)


async def ends(
    scene: Scene, verdict: Verdict, *, told: list[Signal] | None = None, cancelled: bool = False
) -> str:
    """One more job of the repeat, which ends like this. Returns its id."""
    job = await scene.app.repeats.trigger(KEY)
    claim = await claim_one(scene.store)
    settlement = Settlement(claim, verdict, was_cancelled=cancelled)
    took = await scene.store.settle([settlement])
    emit = ignore_signal if told is None else told.append
    await report_repeats(scene.store, [settlement], took, emit)
    return job.id


async def stands(scene: Scene, pause_after: int | None = 3) -> None:
    later = await scene.store.now() + HOUR
    await scene.stands(Every(3600), later, pause_after=pause_after)


async def test_after_so_many_failures_in_a_row_it_is_paused(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Signal] = []
    await stands(scene)
    for n in (1, 2):
        await ends(scene, FAILED, told=told)
        assert ((await scene.repeat()).state, (await scene.repeat()).failures) == ("active", n)
    assert told == []
    with caplog.at_level(logging.ERROR, "mita.worker"):
        last = await ends(scene, FAILED, told=told)
    record = await scene.app.repeats.get(KEY)
    assert record is not None
    assert (record.state, record.failures, record.pause_after) == (RepeatState.PAUSED, 3, 3)
    assert record.reason == f"3 failures in a row, the last of job {last}: ValueError: no such list"
    [line] = [line for line in caplog.records if "is paused" in line.getMessage()]
    assert line.getMessage().endswith(f"mita repeats resume {KEY}")
    [signal] = told
    assert isinstance(signal, RepeatPaused)
    [batch] = batches_of(signal)
    [event] = batch.events()
    assert (event.kind, event.id, event.count, event.task) == (Kind.PAUSED, KEY, 3, "digest")
    counters = Counters()
    counters(signal)
    assert counters.paused["mail", "digest"] == 1


async def test_a_success_starts_the_count_again(scene: Scene) -> None:
    await stands(scene)
    for verdict in (FAILED, FAILED, DONE, FAILED, FAILED):
        await ends(scene, verdict)
    assert ((await scene.repeat()).state, (await scene.repeat()).failures) == ("active", 2)


async def test_a_resume_starts_the_count_again(scene: Scene) -> None:
    await stands(scene, 1)
    await ends(scene, FAILED)
    assert (await scene.repeat()).state is RepeatState.PAUSED
    assert await scene.app.repeats.resume(KEY)
    repeat = await scene.repeat()
    assert (repeat.state, repeat.failures, repeat.pause_reason) == ("active", 0, "")
    await ends(scene, FAILED)
    assert (await scene.repeat()).state is RepeatState.PAUSED


async def test_other_endings_count_neither_way(scene: Scene) -> None:
    """A retry, a cancelled job, and one that was cancelled while it failed."""
    await stands(scene)
    await ends(scene, FAILED)
    await ends(scene, STOPPED)
    await ends(scene, FAILED, cancelled=True)
    await ends(scene, AGAIN)
    assert (await scene.repeat()).failures == 1


async def test_a_settlement_that_came_too_late_is_not_counted(scene: Scene) -> None:
    await stands(scene)
    await scene.app.repeats.trigger(KEY)
    late = Settlement(await claim_one(scene.store), FAILED)
    assert await scene.store.settle([late]) == [True]
    took = await scene.store.settle([late])
    await report_repeats(scene.store, [late], took, ignore_signal)
    assert took == [False]
    assert (await scene.repeat()).failures == 0


async def test_a_repeat_without_pause_after_is_not_counted(scene: Scene) -> None:
    await stands(scene, None)
    for _ in range(5):
        await ends(scene, FAILED)
    repeat = await scene.repeat()
    assert (repeat.state, repeat.failures) == ("active", 0)


async def test_backfilled_jobs_are_not_counted(scene: Scene) -> None:
    now = await scene.store.now()
    await scene.stands(Every(3600), now + HOUR, pause_after=1)
    start = datetime.fromtimestamp((now - HOUR - 1) / 1000, UTC)
    end = datetime.fromtimestamp(now / 1000, UTC)
    result = await scene.app.repeats.backfill(KEY, start=start, end=end)
    assert result.enqueued
    settlement = Settlement(await claim_one(scene.store), FAILED)
    took = await scene.store.settle([settlement])
    await report_repeats(scene.store, [settlement], took, ignore_signal)
    assert (await scene.repeat()).state is RepeatState.ACTIVE


async def test_a_worker_that_died_before_it_paused_is_repaired_by_the_next_failure(
    scene: Scene,
) -> None:
    await stands(scene)
    for _ in range(3):
        await scene.store.report_repeat(KEY, True)
    assert (await scene.repeat()).state is RepeatState.ACTIVE
    await ends(scene, FAILED)
    repeat = await scene.repeat()
    assert (repeat.state, repeat.failures) == ("paused", 4)


async def test_failures_of_a_paused_repeat_change_no_reason(scene: Scene) -> None:
    """Its jobs that still run may fail, too; and a person may have paused it."""
    told: list[Signal] = []
    await stands(scene, 1)
    await scene.app.repeats.pause(KEY)
    await ends(scene, FAILED, told=told)
    repeat = await scene.repeat()
    assert (repeat.state, repeat.pause_reason, told) == ("paused", "", [])


async def test_why_says_that_the_repeat_is_paused(scene: Scene) -> None:
    await stands(scene, 1)
    last = await ends(scene, FAILED)
    reasons = await scene.app.explain(last)
    [found] = [reason for reason in reasons if reason.code is ReasonCode.REPEAT_PAUSED]
    assert "no such list" in found.text
    assert found.command == ("repeats", "resume", KEY)
    await scene.app.repeats.resume(KEY)
    assert ReasonCode.REPEAT_PAUSED not in [one.code for one in await scene.app.explain(last)]


# ---------------------------------------------------------------- real workers


@asynccontextmanager
async def working(app: Mita, **settings: float) -> AsyncIterator[None]:
    worker = app.worker(poll=0.1, schedule_lock=0, **settings)  # type: ignore[arg-type]
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await running


async def is_paused(scene: Scene, key: str) -> bool:
    [repeat] = await scene.store.find_repeats([key])
    return repeat is not None and repeat.state is RepeatState.PAUSED


def failing(app: Mita, endings: Iterator[bool]) -> None:
    """A task whose runs fail where `endings` says so, and for ever after that."""

    @app.repeats(Every(0.05), key="shaky", pause_after=3)
    @app.task(queue="shaky", retry=Retry(max_retries=1, base=0.0))
    async def shaky() -> None:
        if next(endings, True):
            raise ValueError("it shakes")


async def test_a_worker_pauses_it_and_no_more_jobs_are_made(live: Scene) -> None:
    """Two runs for each job: only the last of its attempts counts."""
    app = live.app
    # job 1 fails, job 2 succeeds at its second attempt, jobs 3 to 5 fail
    failing(app, iter([True, True, True, False]))

    async with working(app):
        await until(lambda: is_paused(live, "shaky"), "the repeat is paused")
        reason = (await live.repeat("shaky")).pause_reason
        assert "3 failures in a row" in reason
        assert "it shakes" in reason
    jobs = await live.jobs("shaky")
    failed = [job for job in jobs if job.state is State.FAILED]
    assert len(failed) >= 4
    before = (await live.repeat("shaky")).count
    async with working(app):
        await asyncio.sleep(0.3)
    assert (await live.repeat("shaky")).count == before, "it stays paused"


async def test_a_listener_and_a_subscriber_are_told(live: Scene) -> None:
    heard: list[JobEvent] = []
    failing(live.app, iter(()))
    listening = live.app.listen(heard.extend, kinds=["paused"])
    try:
        async with live.app.events(kinds=["paused"]) as events, working(live.app):
            async with asyncio.timeout(60):
                event = await anext(aiter(events))
        await until(lambda: heard, "the listener hears of it")
    finally:
        listening.stop()
    for one in (event, heard[0]):
        assert (one.kind, one.id, one.count, one.queue) == (Kind.PAUSED, "shaky", 3, "shaky")


async def test_a_worker_goes_on_if_a_report_fails(
    live: Scene, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one report is missing, which is logged."""
    kind = type(live.store)
    whole, away = kind.report_repeat, iter([True])

    async def report(store: object, key: str, failed: bool) -> int:
        if next(away, False):
            raise StoreError("away")
        return await whole(store, key, failed)  # type: ignore[arg-type]

    monkeypatch.setattr(kind, "report_repeat", report)
    failing(live.app, iter(()))

    with caplog.at_level(logging.WARNING, "mita.worker"):
        async with working(live.app):
            await until(lambda: is_paused(live, "shaky"), "the repeat is paused")
    assert [line for line in caplog.records if "was not counted" in line.getMessage()]
    failed = [job for job in await live.jobs("shaky") if job.state is State.FAILED]
    assert len(failed) >= 4, "three after the one that was not counted"


async def test_a_job_whose_worker_died_too_often_counts_as_failed(live: Scene) -> None:
    """The sweeper ends it, and reports it."""

    @live.app.task(queue="lost", retry=Retry(max_crashes=0))
    async def lost() -> None: ...

    await live.app.repeat("lost", lost.call(), Every(3600), pause_after=1)
    await live.app.repeats.trigger("lost")
    await claim_one(live.store, queue="lost", lease=50, worker="one that dies")

    async with working(live.app, lease=3.0):
        await until(lambda: is_paused(live, "lost"), "the repeat is paused")
    assert "WorkerLost" in (await live.repeat("lost")).pause_reason


async def test_the_lab_pauses_it_too() -> None:
    app = Mita("memory://")
    failing(app, iter([True] * 100))
    async with lab(app) as it:
        await it.advance(10, raises=False)
        record = await app.repeats.get("shaky")
        assert record is not None
        assert (record.state, record.count) == (RepeatState.PAUSED, 3)


async def test_the_error_of_a_secret_task_is_not_in_the_reason() -> None:
    app = Mita("memory://")

    @app.repeats(Every(60), key="hidden", pause_after=1)
    @app.task(secret=True, retry=Retry(max_retries=0))
    async def hidden() -> None:
        raise ValueError("the password is xyzzy")

    async with lab(app) as it:
        await it.advance(120, raises=False)
        record = await app.repeats.get("hidden")
        assert record is not None
        assert record.state is RepeatState.PAUSED
        assert "ValueError" in record.reason
        assert "xyzzy" not in record.reason
