"""A handler may raise or return anything: its job ends and the worker continues (I1, I15)."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

import pytest

from mita import Job, JobFailed, Mita, Reschedule, Retry

from .conftest import until_state, working

HALF = "caf\udce9"  # a file name that is not UTF-8, as the operating system gives it to Python
ONE_TRY = Retry(max_retries=0)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Leaving(BaseException):
    """An error that is not an Exception, as in some libraries."""


def half() -> None:
    raise FileNotFoundError(2, "No such file", HALF)


def mute() -> None:
    raise Mute


def leaving() -> None:
    raise Leaving("for good")


def interrupting() -> None:
    raise KeyboardInterrupt


def closing() -> None:
    raise GeneratorExit


def leaving_the_program() -> None:
    sys.exit(3)


def cancelling() -> None:
    raise asyncio.CancelledError("by itself")


def out_of_items() -> None:
    raise StopIteration(7)


def out_of_async_items() -> None:
    raise StopAsyncIteration


def many() -> None:
    raise BaseExceptionGroup(
        "many", [GeneratorExit(), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()]
    )


class Breaking(Exception):
    def __str__(self) -> str:
        raise GeneratorExit


def breaking() -> None:
    raise Breaking


def nul() -> None:
    raise ValueError("a\0b")


def endless() -> None:
    raise ValueError("x" * 5_000_000)


RAISED: dict[Callable[[], None], str] = {
    half: "FileNotFoundError: [Errno 2] No such file: 'caf\\udce9'",
    mute: "Mute: (its text cannot be had: RuntimeError)",
    leaving: "Leaving: for good",
    nul: "ValueError: a",
    endless: "ValueError: xxx",
    closing: "GeneratorExit",
    leaving_the_program: "SystemExit: 3",
    cancelling: "CancelledError: by itself",
    out_of_items: "StopIteration",
    out_of_async_items: "StopAsyncIteration",
    many: "BaseExceptionGroup: many (4 sub-exceptions)",
    breaking: "Breaking: (its text cannot be had: GeneratorExit)",
}
ON_A_THREAD = [fn for fn in (*RAISED, interrupting) if fn not in (half, nul, endless)]


async def failing(app: Mita, fn: Callable[..., Any], **options: Any) -> str:
    task: Any = app.task(name="it", retry=ONE_TRY, **options)(fn)
    async with working(app):
        with pytest.raises(JobFailed) as caught:
            await (await task.enqueue()).result(timeout=20)
        assert (
            await (await app.task(name="after")(lambda: "fine").enqueue()).result(timeout=20)
            == "fine"
        )
    return caught.value.error


@pytest.mark.parametrize("raised", RAISED, ids=lambda fn: fn.__name__)
async def test_an_error_of_any_kind_fails_only_its_job(
    app: Mita, raised: Callable[[], None]
) -> None:
    async def handler() -> None:
        raised()

    assert RAISED[raised] in await failing(app, handler)


@pytest.mark.parametrize("timeout", [None, 60.0], ids=["no timeout", "timeout"])
@pytest.mark.parametrize("raised", RAISED, ids=lambda fn: fn.__name__)
async def test_an_error_after_progress_fails_only_its_job(
    raised: Callable[[], None], timeout: float | None
) -> None:
    """The end of a run with a timeout, and of one that has reported progress, takes another path
    through the worker."""

    async def handler(job: Job) -> None:
        await job.progress(1, 2)
        await job.progress(2, 2)
        raised()

    assert RAISED[raised] in await failing(Mita("memory://"), handler, timeout=timeout)


@pytest.mark.parametrize("raised", ON_A_THREAD, ids=lambda fn: fn.__name__)
async def test_an_error_on_a_thread_fails_only_its_job(raised: Callable[[], None]) -> None:
    assert RAISED.get(raised, "KeyboardInterrupt") in await failing(Mita("memory://"), raised)


async def test_a_handler_that_cancels_its_own_task_and_returns_has_returned(app: Mita) -> None:
    """The cancel would arrive at the next await, which is in our code: the last progress report."""

    @app.task
    async def handler(job: Job) -> str:
        await job.progress(1, 2)
        await job.progress(2, 2)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    async with working(app):
        assert await (await handler.enqueue()).result(timeout=20) == "done"


async def test_an_error_of_a_handler_that_was_cancelled_is_no_failure(app: Mita) -> None:
    """I6: drivers raise errors of their own after a cancel, also at a shutdown."""
    started = asyncio.Event()

    @app.task(retry=ONE_TRY)
    async def handler() -> None:
        started.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            raise ConnectionError("the connection was cut in the middle of a statement") from None

    async with working(app, grace=0) as worker:
        handle = await handler.enqueue()
        await started.wait()
        worker.stop()
    record = await app.get(handle.id)
    assert record is not None
    assert (record.state, record.attempts, record.interruptions) == ("ready", 0, 1)


async def test_a_backoff_function_that_raises_system_exit_does_not_end_the_program(
    app: Mita,
) -> None:
    def leave(*_: object) -> float:
        sys.exit(3)

    @app.task(retry=Retry(max_retries=1, base=0.001, wait=leave))
    async def handler() -> None:
        raise ValueError("once")

    async with working(app):
        with pytest.raises(JobFailed, match="once"):
            await (await handler.enqueue()).result(timeout=20)


async def test_reasons_and_messages_that_are_not_utf8_are_escaped(app: Mita) -> None:
    @app.task
    async def wander(job: Job) -> None:
        await job.progress(1, 2, HALF)
        if not job.reschedules:
            raise Reschedule(after=0, reason=HALF)

    async with working(app):
        job = await wander.enqueue()
        await job.result(timeout=20)
    waiting = await wander.after(3600).enqueue()
    await app.reschedule(waiting.id, after=7200, reason=HALF)
    await app.cancel(waiting.id, reason=HALF)
    for id, times in ((job.id, 1), (waiting.id, 2)):
        record = await app.get(id)
        assert record is not None
        assert str(record.timeline).count("caf\\\\udce9") == times


async def test_a_result_that_is_too_large_for_the_store_fails_only_its_job() -> None:
    """NATS keeps a job in one message, and a server takes messages of a megabyte."""
    from tests.stores.nats import servers

    app = Mita(f"{servers.shared().url}?namespace=engine_{servers.fresh_namespace()}")
    error = await failing(app, lambda: "x" * 2_000_000)
    await app.close()
    assert "returned a result of 2,000,005 bytes" in error
    assert "store it elsewhere and return its name" in error


async def test_a_large_result_is_stored_if_it_fits(app: Mita) -> None:
    @app.task
    async def large() -> str:
        return "x" * 600_000

    async with working(app):
        job = await large.enqueue()
        assert len(await job.result(timeout=20)) == 600_000
        await until_state(app, job.id, "succeeded")


async def test_a_backoff_function_may_return_anything(app: Mita) -> None:
    async def fails(job: Job) -> None:
        if job.attempt > 1:  # None counts as no delay, so it runs again at once
            raise Reschedule(after=3600)
        raise ValueError("once")

    usual = {"max_retries": 1, "base": 3600, "cap": 3600, "jitter": "none"}
    said: list[Any] = [1e300, float("inf"), float("nan"), "soon", -5]
    tasks = [
        app.task(name=f"t{n}", retry=Retry(**usual, wait=lambda *_, n=n: said[n]))(fails)  # type: ignore[arg-type]
        for n in range(len(said))
    ]
    async with working(app):
        jobs = [await task.enqueue() for task in tasks]
        for job in jobs:
            await until_state(app, job.id, "scheduled")
