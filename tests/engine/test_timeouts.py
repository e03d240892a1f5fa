"""A handler that runs longer than its timeout keeps its slot and its resource key until it ends
(I5)."""

import asyncio
import threading
import time
from contextlib import suppress

import pytest

from mita import Job, Mita, Reschedule, Retry
from mita.rules.explain.evidence import ReasonCode
from tests.waiting import until

from .conftest import until_state, working

AT_ONCE = Retry(max_retries=1, waits=(0.0,))


class Inside:
    """Counts runs, and how many ran at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.now = self.most = self.runs = 0

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.runs += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.now -= 1


async def _claims_go_on(app: Mita) -> None:
    """Wait until the worker has claimed twice: every job that was due before could have started."""
    for _ in range(2):
        job = await app.find_task("other").enqueue()
        await job.result(timeout=20)


async def test_a_key_stays_taken_until_a_thread_that_timed_out_ends(app: Mita) -> None:
    inside, told, let_go = Inside(), threading.Event(), threading.Event()

    @app.task(resource="a", timeout=0.05, retry=AT_ONCE)
    def hold(job: Job) -> None:
        with inside:
            while not job.cancelled:
                time.sleep(0.01)
            told.set()
            let_go.wait(20)

    @app.task
    async def other() -> None: ...

    async with working(app, poll=0.1):
        jobs = [await hold.enqueue(), await hold.enqueue()]
        await asyncio.to_thread(told.wait, 20)
        await _claims_go_on(app)
        states = [record.state for job in jobs if (record := await app.get(job.id))]
        assert sorted(states) == ["blocked", "running"]
        let_go.set()
        records = [await until_state(app, job.id, "failed") for job in jobs]
    assert (inside.most, inside.runs) == (1, 4)
    assert [record.attempts for record in records] == [2, 2]
    assert all(record.error.startswith("TimedOut: ") for record in records)


async def test_a_key_stays_taken_until_an_async_handler_that_ignores_its_timeout_ends(
    app: Mita,
) -> None:
    inside, told, let_go = Inside(), asyncio.Event(), asyncio.Event()
    seen: list[bool] = []

    @app.task(resource="a", timeout=0.05, retry=AT_ONCE)
    async def hold(job: Job) -> str:
        with inside:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            seen.append(job.cancelled)
            told.set()
            await let_go.wait()
            return "too late"

    @app.task
    async def other() -> None: ...

    async with working(app, poll=0.1):
        job = await hold.enqueue()
        await asyncio.wait_for(told.wait(), 20)
        await _claims_go_on(app)
        record = await app.get(job.id)
        assert record is not None
        assert record.state == "running"
        let_go.set()
        record = await until_state(app, job.id, "failed")
    assert (inside.most, inside.runs, seen) == (1, 2, [True, True])
    assert record.error.startswith("TimedOut: ")


async def test_the_lease_of_a_thread_that_timed_out_is_extended(app: Mita) -> None:
    """I4: no other worker takes the job over while it runs."""
    told, let_go = threading.Event(), threading.Event()
    runs: list[int] = []

    @app.task(timeout=0.05, retry=Retry(max_retries=0))
    def hold(job: Job) -> None:
        runs.append(job.token)
        while not job.cancelled:
            time.sleep(0.01)
        told.set()
        let_go.wait(20)

    async with working(app, lease=1.0, poll=0.1), working(app, lease=1.0, poll=0.1):
        job = await hold.enqueue()
        await asyncio.to_thread(told.wait, 20)
        store = await app.open_store()
        [before] = await store.find([job.id])

        async def extended_twice() -> bool:
            [now] = await store.find([job.id])
            assert before is not None
            assert now is not None
            assert before.lease_until is not None
            assert now.lease_until is not None
            return now.lease_until > before.lease_until + 1000

        await until(extended_twice)
        await store.close()
        let_go.set()
        record = await until_state(app, job.id, "failed")
    assert (len(runs), record.crashes, record.attempts) == (1, 0, 1)


async def test_a_handler_that_timed_out_may_still_reschedule_its_job() -> None:
    """A Reschedule counts, even after a timeout."""
    app = Mita("memory://")

    @app.task(timeout=0.05)
    def piecemeal(job: Job) -> str:
        while not job.reschedules and not job.cancelled:
            time.sleep(0.01)
        if not job.reschedules:
            raise Reschedule(after=0)
        return "the rest"

    async with working(app):
        job = await piecemeal.enqueue()
        assert await job.result(timeout=20) == "the rest"
        record = await app.get(job.id)
    await app.close()
    assert record is not None
    assert (record.attempts, record.reschedules) == (0, 1)


async def test_a_stopping_worker_returns_a_timed_out_job_as_timed_out(app: Mita) -> None:
    """I6: it is a failed attempt, not an interruption."""
    told, let_go = threading.Event(), threading.Event()

    @app.task(timeout=0.05, retry=Retry(max_retries=3, base=3600, cap=3600))
    def hold(job: Job) -> None:
        while not job.cancelled:
            time.sleep(0.01)
        told.set()
        let_go.wait(20)

    async with working(app, grace=0.1) as worker:
        job = await hold.enqueue()
        await asyncio.to_thread(told.wait, 20)
        worker.stop()
    record = await app.get(job.id)
    let_go.set()
    assert record is not None
    assert (record.state, record.attempts, record.interruptions) == ("scheduled", 1, 0)


async def test_explain_shows_a_job_that_is_past_its_timeout(
    app: Mita, caplog: pytest.LogCaptureFixture
) -> None:
    let_go = threading.Event()

    @app.task(timeout=0.05, retry=Retry(max_retries=0))
    def hold() -> None:
        let_go.wait(20)

    async with working(app):
        job = await hold.enqueue()

        async def said() -> bool:
            return ReasonCode.TIMED_OUT in [reason.code for reason in await app.explain(job.id)]

        try:
            await until(said)
        finally:
            let_go.set()
    [line] = [record for record in caplog.records if getattr(record, "event", "") == "timed out"]
    assert "ran longer than its timeout of 0.05 s" in line.getMessage()
