"""Expiry, deadlines and limits of reschedules under a clock that stands still: the lab decides as a
worker does, to the millisecond."""

from datetime import UTC, datetime, timedelta

import pytest

from mita import Job, JobCancelled, JobFailed, Mita, Reschedule, Retry
from mita.rules.moves import FREE_MOVES
from mita.testing import lab

START = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def app() -> Mita:
    return Mita("sqlite:///never-opened.db")


@pytest.mark.parametrize(("late_ms", "runs"), [(60_000, 1), (60_001, 0)])
async def test_a_job_expires_to_the_millisecond(app: Mita, late_ms: int, runs: int) -> None:
    ran = []

    @app.task(expires=60)
    async def send() -> None:
        ran.append(it.now)

    async with lab(app, start=START) as it:
        job = await send.after(10).enqueue()
        it.clock.move_ms(10_000 + late_ms)
        assert await it.drain() == runs == len(ran)
        if not runs:
            with pytest.raises(JobCancelled, match="expired"):
                await job.result(timeout=1)


async def test_a_job_after_an_expired_one_runs_in_the_same_call(app: Mita) -> None:
    ran = []

    @app.task
    async def send(n: int) -> None:
        ran.append(n)

    async with lab(app, start=START) as it:
        await send.options(expires=1).enqueue(1)
        await send.enqueue(2)
        it.clock.move_ms(1_001)
        assert await it.drain() == 1
    assert ran == [2]


async def test_a_retry_expires_by_its_own_due_time(app: Mita) -> None:
    @app.task(expires=5, retry=Retry(waits=(100.0,)))
    async def send() -> None:
        raise RuntimeError("no")

    async with lab(app, start=START) as it:
        job = await send.enqueue()
        assert await it.drain(raises=False) == 1
        it.clock.move_ms(105_001)
        assert await it.drain() == 0
        record = await job.get()
    assert record is not None
    assert (record.state, record.attempts) == ("cancelled", 1)


async def test_a_deadline_bounds_all_retries_together(app: Mita) -> None:
    starts = []

    @app.task(deadline=25, retry=Retry(max_retries=100, waits=(10.0,)))
    async def never() -> None:
        starts.append((it.now - START).total_seconds())
        raise RuntimeError("no")

    async with lab(app, start=START) as it:
        job = await never.after(100).enqueue()
        await it.advance(1000, raises=False)
        with pytest.raises(JobFailed, match="DeadlineExceeded: its next run, in 10 s"):
            await job.result(timeout=1)
    assert starts == [100, 110, 120]


async def test_a_deadline_bounds_moves_and_its_time_is_kept_with_a_fixed_time(app: Mita) -> None:
    starts = []

    @app.task(deadline=timedelta(seconds=25))
    async def poll() -> None:
        starts.append((it.now - START).total_seconds())
        raise Reschedule(after=10)

    async with lab(app, start=START) as it:
        job = await poll.at(START + timedelta(seconds=50)).enqueue()
        await it.advance(1000)
        with pytest.raises(JobFailed, match="DeadlineExceeded"):
            await job.result(timeout=1)
        assert starts == [50, 60, 70]


async def test_a_retried_job_has_its_whole_deadline_again(app: Mita) -> None:
    starts = []

    @app.task(deadline=25, retry=Retry(max_retries=100, waits=(10.0,)))
    async def never() -> None:
        starts.append((it.now - START).total_seconds())
        raise RuntimeError("no")

    async with lab(app, start=START) as it:
        job = await never.enqueue()
        await it.advance(22, raises=False)
        assert starts == [0, 10, 20]
        record = await job.get()
        assert record is not None
        assert record.state == "failed"
        await app.retry(job.id)  # within its first deadline
        assert await it.drain(raises=False) == 1
        it.clock.move_ms(10_000)
        record = await job.get()
        assert record is not None
        assert record.state == "ready"
        assert await it.drain(raises=False) == 1, "its retry is behind the first deadline, and runs"
        await app.cancel(job.id)
        await app.retry(job.id, after=60)
        assert await it.advance(60, raises=False) == 1


async def test_a_job_that_waited_past_its_deadline_fails_without_a_run(app: Mita) -> None:
    @app.task(deadline=25)
    async def send() -> None: ...

    async with lab(app, start=START) as it:
        job = await send.enqueue()
        it.clock.move_ms(25_000)
        assert await it.drain() == 0
        with pytest.raises(JobFailed, match="DeadlineExceeded: this run could not start"):
            await job.result(timeout=1)
        record = await job.get()
        assert record is not None
        assert (record.attempts, record.crashes) == (0, 0)
        assert record.started is None, "nothing says that it ran"
        assert [line.kind for line in record.timeline] == ["created", "failed"]
        assert [failure.started for failure in record.failures] == [None]


async def test_time_that_passes_in_the_handler_counts(app: Mita) -> None:
    @app.task(deadline=25, retry=Retry(waits=(0.0,)))
    async def slow() -> None:
        it.clock.move_ms(25_000)
        raise RuntimeError("too slow")

    async with lab(app, start=START) as it:
        job = await slow.enqueue()
        assert await it.drain(raises=False) == 1
        with pytest.raises(JobFailed, match="DeadlineExceeded"):
            await job.result(timeout=1)


async def test_a_handler_that_spins_runs_once_per_second(app: Mita) -> None:
    starts = []

    @app.task
    async def spin() -> None:
        starts.append((it.now - START).total_seconds())
        raise Reschedule(after=0)

    async with lab(app, start=START) as it:
        await spin.enqueue()
        assert await it.drain() == FREE_MOVES + 1
        assert await it.advance(5) == 5
    assert starts == [*[0.0] * (FREE_MOVES + 1), 1, 2, 3, 4, 5]


async def test_moves_of_a_person_count_too(app: Mita) -> None:
    @app.task(max_reschedules=2)
    async def poll(job: Job) -> None:
        raise Reschedule(after=1)

    async with lab(app, start=START) as it:
        job = await poll.after(100).enqueue()
        await app.reschedule(job.id, after=1)
        assert await it.advance(10) == 2
        with pytest.raises(JobFailed, match="TooManyReschedules"):
            await job.result(timeout=1)
