"""`@app.middleware`: around every run."""

from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import suppress
from typing import Annotated, Any

import pytest

from mita import Abort, Depends, Job, JobFailed, Mita, Reschedule, Retry, UsageError
from mita.testing import lab

from .conftest import untyped

ONE_TRY = Retry(max_retries=0)


def tasks_of(app: Mita, act: Callable[[], Any]) -> list[Any]:
    @app.task(retry=ONE_TRY)
    async def on_loop(number: int) -> Any:
        return act()

    @app.task(retry=ONE_TRY)
    def on_thread(job: Job, number: int) -> Any:
        return act()

    @app.task(retry=ONE_TRY)
    def with_value(number: int, x: Annotated[str, Depends(lambda: "x")]) -> Any:
        assert x == "x"
        return act()

    return [on_loop, on_thread, with_value]


def wrap(app: Mita, log: list[str]) -> None:
    @app.middleware
    def outer(job: Job) -> Generator[None, Any, None]:
        log.append(f"outer of {job.task}")
        try:
            result = yield
        except BaseException as error:
            log.append(f"outer saw {type(error).__name__}")
            raise
        log.append(f"outer saw {result}")

    @app.middleware
    async def inner(
        job: Job, value: Annotated[str, Depends(lambda: "v")]
    ) -> AsyncGenerator[None, Any]:
        log.append(f"inner {value}")
        try:
            result = yield
        except BaseException as error:
            log.append(f"inner saw {type(error).__name__}")
            raise
        log.append(f"inner saw {result}")


@pytest.mark.parametrize("first", ["middleware", "tasks"])
async def test_it_is_around_every_run_in_the_order_of_declaration(
    app: Mita, log: list[str], first: str
) -> None:
    if first == "middleware":
        wrap(app, log)
    tasks = tasks_of(app, lambda: 7)
    if first == "tasks":
        wrap(app, log)
    async with lab(app) as it:
        for task in tasks:
            job = await task.enqueue(1)
            await it.drain()
            assert await job.result() == 7
            assert log == [f"outer of {task.name}", "inner v", "inner saw 7", "outer saw 7"]
            log.clear()


def refuse() -> Any:
    raise OSError("no log")


def fail() -> None:
    raise ValueError("no")


async def test_it_sees_the_error_of_the_handler(app: Mita, log: list[str]) -> None:
    wrap(app, log)
    async with lab(app) as it:
        for task in tasks_of(app, fail):
            job = await task.enqueue(1)
            await it.drain(raises=False)
            with pytest.raises(JobFailed, match="ValueError: no"):
                await job.result()
            assert log[2:] == ["inner saw ValueError", "outer saw ValueError"]
            log.clear()


async def test_it_sees_the_error_of_a_provider(app: Mita, log: list[str]) -> None:
    wrap(app, log)

    @app.task(retry=ONE_TRY)
    async def use(x: Annotated[None, Depends(fail)]) -> None: ...

    async with lab(app) as it:
        await untyped(use).enqueue()
        await it.drain(raises=False)
    assert log[2:] == ["inner saw ValueError", "outer saw ValueError"]


@pytest.mark.parametrize(
    ("error", "state"), [(Abort("no"), "failed"), (Reschedule(after=60), "scheduled")]
)
async def test_it_can_raise_another_error_instead(app: Mita, error: Exception, state: str) -> None:
    @app.middleware
    def translate(job: Job) -> Iterator[None]:
        try:
            yield
        except ValueError:
            raise error from None

    async with lab(app) as it:
        for task in tasks_of(app, fail):
            job = await task.options(retry=Retry(max_retries=3)).enqueue(1)
            await it.drain(raises=False)
            assert (await job.get()).state == state


async def test_it_cannot_turn_a_failure_into_a_success(app: Mita) -> None:
    @app.middleware
    def swallow(job: Job) -> Iterator[None]:
        with suppress(ValueError):
            yield

    async with lab(app) as it:
        for task in tasks_of(app, fail):
            job = await task.enqueue(1)
            await it.drain(raises=False)
            assert (await job.get()).state == "failed"


async def test_an_error_of_its_own_names_it(app: Mita) -> None:
    @app.middleware
    def broken(job: Job) -> Iterator[None]:
        yield refuse()

    async with lab(app) as it:
        for task in tasks_of(app, lambda: 1):
            job = await task.enqueue(1)
            await it.drain(raises=False)
            with pytest.raises(JobFailed, match=r"no log \(raised by middleware .*broken\)"):
                await job.result()


async def test_it_does_not_see_a_job_whose_arguments_cannot_be_read(
    app: Mita, log: list[str]
) -> None:
    wrap(app, log)

    @app.task(name="changed")
    def before(text: str) -> None: ...

    async with lab(app) as it:
        job = await before.enqueue("text")
        app._registry.tasks["changed"].arguments.__dict__["_codec"] = tasks_of(app, fail)[
            0
        ].arguments._codec
        await it.drain(raises=False)
        record = await job.get()
        assert record is not None
        assert record.state == "failed"
    assert log == []


def test_it_takes_the_job_and_yields(app: Mita) -> None:
    with pytest.raises(UsageError, match="a generator that takes the job"):

        @app.middleware
        async def wrong(job: Job) -> None: ...

    with pytest.raises(UsageError, match="a generator that takes the job"):

        @app.middleware
        def also_wrong() -> Iterator[None]:
            yield
