"""Durable handlers that are written or used wrongly: each is a clear error, and nothing is half
stored."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mita import Answer, Job, JobFailed, JobRecord, Mita, Rejected, Retry, UsageError
from mita.testing import lab
from tests.engine.conftest import URLS, working

Handler = Callable[..., Any]


async def failed(handler: Handler, *, signal: str | None = None, **options: Any) -> JobRecord:
    """The record of a job of this handler, which must fail."""
    app = Mita("memory://", retry=Retry(max_retries=2, base=1, jitter="none"))
    task = app.task(name="work", **options)(handler)
    async with lab(app) as it:
        job = await task.enqueue()
        await it.advance(100, raises=False)
        if signal is not None:
            await it.signal(job.id, signal, "yes")
            await it.advance(100, raises=False)
        with pytest.raises(JobFailed):
            await job.result()
        record = await app.get(job.id)
    assert record is not None
    assert record.error is not None
    return record


def error_of(record: JobRecord) -> str:
    return str(record.error).split("\n", 1)[0]


@pytest.mark.parametrize(
    ("verb", "twin"),
    [
        (lambda job: job.wait_for("approval"), "job.wait_for_sync(…)"),
        (lambda job: job.sleep(60), "job.sleep_sync(…)"),
        (lambda job: job.step("a", int), "job.step_sync(…)"),
    ],
)
async def test_a_sync_handler_without_sync_verbs(verb: Callable[[Job], Any], twin: str) -> None:
    """The coroutine would pass for a value: `if job.wait_for("approval")` would be true."""
    went_on = threading.Event()

    def handler(job: Job) -> str:
        if verb(job):
            went_on.set()
        return "approved"

    record = await failed(handler)
    assert "this handler is no async function" in error_of(record)
    assert twin in error_of(record)
    assert not went_on.is_set()
    assert (record.waits_for, record.steps, record.sleeps) == ((), (), ())


async def test_an_async_handler_with_sync_verbs() -> None:
    async def handler(job: Job) -> None:
        job.sleep_sync(1)

    assert "here use await" in error_of(await failed(handler))


@pytest.mark.parametrize(
    ("timeout", "says"),
    [
        (0, "give more than 0 seconds"),
        (0.0, "give more than 0 seconds"),
        (timedelta(0), "give more than 0 seconds"),
        (-1, "is negative"),
        (timedelta(days=-1), "is negative"),
        ("60", "give seconds or a timedelta"),
        (True, "give seconds or a timedelta"),
        (float("nan"), "give seconds or a timedelta"),
        (1e20, "more than a hundred years"),
    ],
)
async def test_timeouts_that_cannot_be(timeout: Any, says: str) -> None:
    async def handler(job: Job) -> None:
        await job.wait_for("approval", timeout=timeout)

    record = await failed(handler)
    assert "UsageError: timeout=" in error_of(record)
    assert says in error_of(record)
    assert record.signals == ()


@pytest.mark.parametrize("delay", [-1, "60", None, float("inf"), True])
async def test_delays_that_cannot_be(delay: Any) -> None:
    async def handler(job: Job) -> None:
        await job.sleep(delay)

    record = await failed(handler)
    assert "UsageError: delay=" in error_of(record)
    assert record.sleeps == ()


@pytest.mark.parametrize("name", ["", "x" * 251, "a\nb", 7, None])
@pytest.mark.parametrize("what", ["step", "sleep", "signal"])
async def test_names_that_cannot_be(what: str, name: Any) -> None:
    async def handler(job: Job) -> None:
        if what == "step":
            await job.step(name, int)
        elif what == "sleep":
            await job.sleep(1, name=name if name is not None else "")
        else:
            await job.wait_for(name)

    record = await failed(handler)
    assert f"{what} key" in error_of(record)
    assert "is not usable" in error_of(record)


async def test_one_name_for_two_things_of_one_kind() -> None:
    async def two_waits(job: Job) -> None:
        await job.wait_for("approval")
        await job.wait_for("approval")

    async def two_sleeps(job: Job) -> None:
        await job.sleep(1, name="a")
        await job.sleep(1, name="a")

    assert "signal 'approval' occurs twice" in error_of(await failed(two_waits, signal="approval"))
    assert "sleep 'a' occurs twice" in error_of(await failed(two_sleeps))


async def test_one_name_for_a_step_a_sleep_and_a_signal() -> None:
    app = Mita("memory://")

    @app.task
    async def work(job: Job) -> int:
        value = await job.step("a", lambda: 7)
        await job.sleep(1, name="a")
        return value + int(await job.wait_for("a", type=int))

    async with lab(app) as it:
        job = await work.enqueue()
        await it.signal(job.id, "a", 1)
        await it.advance(2)
        assert await job.result() == 8


@pytest.mark.parametrize("kind", ["str", 7, threading.Lock, Callable[[], int]])
async def test_a_type_that_no_signal_can_have(kind: Any) -> None:
    """It is refused before the job waits: a wait of days must not end with this."""

    async def handler(job: Job) -> None:
        await job.wait_for("approval", type=kind)

    record = await failed(handler)
    assert "wait_for('approval', type=" in error_of(record)
    assert record.waits_for == ()


async def test_a_step_that_returns_what_cannot_be_stored_is_not_run_again() -> None:
    ran = []

    def charge() -> object:
        ran.append(1)
        return object()

    async def handler(job: Job) -> None:
        await job.step("charge", charge)

    record = await failed(handler)
    assert "step 'charge' returned a value of type object, which cannot be stored" in error_of(
        record
    )
    assert (len(ran), record.attempts) == (1, 1)


async def test_a_step_whose_result_is_not_what_its_annotation_says() -> None:
    ran = []

    def charge() -> int:
        ran.append(1)
        answer: Any = "seven"
        return answer  # type: ignore[no-any-return]

    async def handler(job: Job) -> None:
        await job.step("charge", charge)

    record = await failed(handler)
    assert "step 'charge' does not fit the return annotation" in error_of(record)
    assert (len(ran), record.attempts) == (1, 1)


async def test_an_async_step_in_a_sync_handler() -> None:
    async def charge() -> int:
        return 1

    def handler(job: Job) -> None:
        _ = job.step_sync("charge", charge)

    assert "step 'charge': its function is async" in error_of(await failed(handler))


async def test_a_handler_that_catches_everything_and_goes_on_fails() -> None:
    """It would do what comes after the sleep before the sleep is over."""

    async def handler(job: Job) -> str:
        with contextlib.suppress(BaseException):
            await job.sleep(60)
        return "too early"

    record = await failed(handler)
    assert "the handler sleeps, which ends its run, but it caught that" in error_of(record)
    assert record.attempts == 1, "no retry: it would do the same"


async def test_a_sync_handler_that_catches_everything_and_goes_on_fails() -> None:
    def handler(job: Job) -> str:
        try:
            return str(job.wait_for_sync("approval"))
        except BaseException:  # noqa: BLE001
            return "nobody"

    record = await failed(handler)
    assert "the handler waits for the signal 'approval', which ends its run" in error_of(record)


async def test_gather_that_returns_exceptions_is_such_a_handler() -> None:
    async def handler(job: Job) -> None:
        await asyncio.gather(job.wait_for("a"), job.wait_for("b"), return_exceptions=True)

    assert "but it caught that and returned" in error_of(await failed(handler))


async def test_the_next_verb_ends_the_run_again() -> None:
    """A `finally` around a sleep, or a handler that catches everything, does no further step before
    the sleep is over."""
    app, ran = Mita("memory://"), []

    @app.task
    async def work(job: Job) -> str:
        try:
            await job.sleep(60)
        finally:
            await job.step("after", lambda: ran.append(it.now))
        return "done"

    async with lab(app) as it:
        began, job = it.now, await work.enqueue()
        await it.advance(59)
        assert ran == []
        await it.advance(1)
        assert await job.result() == "done"
    assert ran == [began + timedelta(seconds=60)]


async def test_values_that_a_signal_cannot_have() -> None:
    app = Mita("memory://")

    @app.task
    async def work(job: Job) -> Any:
        return await job.wait_for("go")

    async with lab(app) as it:
        job = await work.enqueue()
        loop: list[Any] = []
        loop.append(loop)
        for value in (object(), lambda: 1, loop, {object(): 1}):
            with pytest.raises(UsageError, match=r"signal 'go': a value of type .* cannot be"):
                await app.signal(job.id, "go", value)
        with pytest.raises(UsageError, match="names that begin with 'child:', 'added:', 'succ"):
            await app.signal(job.id, "child:7", 1)
        for name in ("", "x" * 251, "a\nb", 7):
            with pytest.raises(UsageError, match=r"signal key .* is not usable"):
                await app.signal(job.id, name)  # type: ignore[arg-type]
        record = await app.get(job.id)
        assert record is not None
        assert record.signals == ()
        await app.signal(job.id, "go", 2**80)
        await it.drain()
        assert await job.result() == 2**80


async def test_values_that_are_too_large_are_named_in_the_error(tmp_path: Path) -> None:
    """NATS has the smallest room. The job waits on, and the next signal that fits wakes it."""
    app = Mita(URLS["nats"](tmp_path), retry=Retry(max_retries=0))
    large = b"x" * 2_000_000

    @app.task
    async def ask(job: Job) -> Any:
        return await job.wait_for("go")

    @app.task
    async def make(job: Job) -> None:
        await job.step("report", lambda: large)

    async with app, working(app):
        job, other = await ask.enqueue(), await make.enqueue()
        with pytest.raises(Rejected, match=r"the signal 'go' has 2,000,\d+ bytes"):
            await app.signal(job.id, "go", large)
        assert await app.signal(job.id, "go", "small") is Answer.DONE
        assert await job.result(timeout=30) == "small"
        with pytest.raises(JobFailed, match=r"the step 'report' has 2,000,\d+ bytes"):
            await other.result(timeout=30)
