"""What is stored about each failed attempt."""

from typing import Any

from mita import Abort, Job, Mita, Retry
from mita.rules.failures import MOST_FAILURE_BYTES

from .conftest import until_state, working

AGAIN = Retry(max_retries=5, base=0)


class SoldError(Exception):
    """An error of the user's own."""


async def test_each_failed_attempt_is_stored_with_error_worker_and_times(app: Mita) -> None:
    @app.task(retry=AGAIN)
    async def flaky(job: Job) -> str:
        if job.attempt == 1:
            raise SoldError("out of stock\nsince Monday")
        if job.attempt == 2:
            raise KeyError("shelf")
        if job.attempt == 3:
            raise Abort("never")
        return "unreachable"

    async with working(app) as worker:
        record = await until_state(app, (await flaky.enqueue()).id, "failed")
    first, second, third = record.failures
    assert [each.type for each in record.failures] == [
        f"{__name__}.SoldError",
        "KeyError",
        "mita.Abort",
    ]
    assert [each.message for each in record.failures] == ["out of stock", "'shelf'", "never"]
    assert [each.kind for each in record.failures] == ["retried", "retried", "failed"]
    assert {each.worker for each in record.failures} == {worker.id}
    assert first.text.startswith(f"{__name__}.SoldError: out of stock\nsince Monday\n")
    assert "in test_each_failed_attempt_is_stored" in second.text
    assert third.text == record.error
    moments = [moment for each in record.failures for moment in (each.started, each.ended)]
    assert record.created <= moments[0]
    assert moments == sorted(moments)


async def test_a_timeout_is_a_failed_attempt_and_a_reschedule_is_not(app: Mita) -> None:
    import asyncio

    from mita import Reschedule

    @app.task(timeout=0.02, retry=Retry(max_retries=0))
    async def slow(job: Job) -> None:
        if not job.reschedules:
            raise Reschedule(after=0)
        await asyncio.sleep(60)

    async with working(app):
        record = await until_state(app, (await slow.enqueue()).id, "failed")
    assert [(each.type, each.kind) for each in record.failures] == [("TimedOut", "failed")]


async def test_a_long_error_is_cut_and_pages_have_no_failures(app: Mita) -> None:
    """I14"""

    @app.task(retry=Retry(max_retries=0))
    async def wordy() -> None:
        raise ValueError("é" * 5000)

    async with working(app):
        record = await until_state(app, (await wordy.enqueue()).id, "failed")
    [failure] = record.failures
    assert len(failure.text.encode()) <= MOST_FAILURE_BYTES
    assert failure.text.startswith("ValueError: éé")
    assert (await app.jobs()).jobs[0].failures == ()


async def test_the_failures_of_a_secret_task_have_only_the_error_type(app: Mita) -> None:
    @app.task(secret=True, retry=Retry(max_retries=1, base=0))
    async def hidden() -> None:
        raise SoldError("to Mr Jones")

    async with working(app):
        record = await until_state(app, (await hidden.enqueue()).id, "failed")
    assert [each.type for each in record.failures] == [f"{__name__}.SoldError"] * 2
    assert "Jones" not in repr(record)


async def test_a_retried_job_keeps_its_earlier_failures(app: Mita) -> None:
    allowed: list[Any] = []

    @app.task(retry=Retry(max_retries=0))
    async def once_more() -> str:
        if not allowed:
            raise SoldError("no")
        return "yes"

    async with working(app):
        job = await once_more.enqueue()
        await until_state(app, job.id, "failed")
        allowed.append(1)
        await app.retry(job.id)
        record = await until_state(app, job.id, "succeeded")
    assert [each.message for each in record.failures] == ["no"]
    assert (record.error, record.attempts) == (None, 0)


async def test_a_crash_names_the_worker_that_was_lost(app: Mita) -> None:
    @app.task
    async def work() -> str:
        return "done"

    job = await work.enqueue()
    store = await app._pool.store()
    turn = await store.claim(["default"], 1, 100, "lost-worker")
    assert [claim.id for claim in turn.claims] == [job.id]
    async with working(app, lease=0.3):
        record = await until_state(app, job.id, "succeeded")
    [crash] = record.failures
    assert (crash.type, crash.kind, crash.worker) == ("WorkerLost", "crashed", "lost-worker")
    assert record.crashes == 1
