"""A handler sees no context variable that the run of another job has set."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from typing import Annotated, Any

import pytest

from mita import Depends, Job, Mita, Retry
from mita.testing import lab

from . import marking
from .conftest import working
from .marking import MARK

JOBS = 8
QUICK = Retry(max_retries=2, base=0.001, cap=0.002)


@pytest.fixture
async def app() -> AsyncIterator[Mita]:
    app = Mita("memory://")
    yield app
    await app.close()


async def seen_by(app: Mita, *tasks: Any, **settings: Any) -> list[Any]:
    """What the jobs of these tasks return that one worker runs, one at a time by default."""
    jobs = await app.enqueue_many([task.call(n) for n in range(1, JOBS + 1) for task in tasks])
    async with working(app, **{"concurrency": 1, "threads": 1, **settings}):
        return [await job.result(timeout=10) for job in jobs]


def mark(n: int) -> int:
    """Set the mark. Returns what it was before."""
    before = MARK.get()
    MARK.set(n)
    return before


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("settings", [{}, {"timeout": 30.0}])
async def test_async_handlers(app: Mita, concurrency: int, settings: dict[str, Any]) -> None:
    @app.task(**settings)
    async def look(n: int) -> int:
        return mark(n)

    @app.task(**settings)
    async def look_twice(n: int) -> int:
        before = mark(n)
        await asyncio.sleep(0)
        return before or MARK.get() - n

    assert set(await seen_by(app, look, look_twice, concurrency=concurrency)) == {0}


async def test_sync_handlers_beside_async_ones(app: Mita) -> None:
    @app.task
    def on_thread(n: int) -> int:
        return mark(n)

    @app.task
    async def on_loop(n: int) -> int:
        return mark(n)

    assert set(await seen_by(app, on_thread, on_loop)) == {0}


async def test_every_async_handler_sees_what_was_set_before_the_worker_started(app: Mita) -> None:
    @app.task
    def on_thread(n: int) -> None:
        mark(n)

    @app.task
    async def on_loop(n: int) -> int:
        return mark(n)

    MARK.set(-1)
    assert set(await seen_by(app, on_thread, on_loop)) == {None, -1}


async def test_the_next_attempt_of_a_job(app: Mita) -> None:
    seen = []

    @app.task(retry=QUICK)
    async def fail_twice(job: Job, n: int) -> None:
        seen.append(mark(n))
        if job.attempt < 3:
            raise OSError

    await seen_by(app, fail_twice)
    assert seen == [0] * 3 * JOBS


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_middleware_and_dependencies(app: Mita, kind: str) -> None:
    seen = []

    @app.middleware
    def around(job: Job) -> Generator[None, Any, None]:
        seen.append(mark(-1))
        yield
        MARK.set(-2)

    @app.middleware
    async def around_async(job: Job) -> AsyncGenerator[None, Any]:
        MARK.set(-3)
        yield
        MARK.set(-4)

    async def value() -> AsyncGenerator[int, None]:
        yield mark(-5)
        MARK.set(-6)

    @app.task
    async def on_loop(n: int, value: Annotated[int, Depends(value)]) -> int:
        return mark(n)

    @app.task
    def on_thread(n: int, value: Annotated[int, Depends(value)]) -> int:
        return mark(n)

    # what async generators set beside a handler on a thread is set in another context
    task, last = (on_loop, -5) if kind == "async" else (on_thread, -1)
    assert set(await seen_by(app, task)) == {last}
    assert seen == [0] * JOBS


async def test_shared_values_are_not_made_in_the_context_of_the_run_that_needs_them(
    app: Mita,
) -> None:
    seen = []

    def first() -> Generator[int, None, None]:
        seen.append(mark(-1))
        yield 1

    async def second() -> int:
        seen.append(mark(-2))
        return 2

    @app.task
    async def early(n: int, one: Annotated[int, Depends(first, scope="worker")]) -> int:
        return mark(n)

    @app.task
    async def late(n: int, two: Annotated[int, Depends(second, scope="worker")]) -> int:
        return mark(n)

    @app.middleware
    def around(job: Job) -> Generator[None, Any, None]:
        MARK.set(-3)
        yield

    assert set(await seen_by(app, early, late)) == {-3}
    assert seen == [0, 0]


async def test_steps_of_a_flow(app: Mita) -> None:
    seen = []

    @app.task
    async def step(n: int) -> None:
        seen.append(mark(n))

    chain = app.chain(*[step.call(n) for n in range(1, JOBS)])
    async with working(app, concurrency=1):
        run = await chain.enqueue()
        await run.wait(timeout=10)
    assert seen == [0] * (JOBS - 1)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_in_the_laboratory(app: Mita, kind: str) -> None:
    @app.task
    async def on_loop(n: int) -> int:
        return mark(n)

    @app.task
    def on_thread(n: int) -> int:
        return mark(n)

    task: Any = on_loop if kind == "async" else on_thread
    async with lab(app) as it:
        jobs = [await task.enqueue(n) for n in range(1, 4)]
        await it.drain()
        assert [await job.result() for job in jobs] == [0, 0, 0]


async def test_handler_processes() -> None:
    async with marking.app.using("memory://") as app:
        found = await seen_by(app, marking.marked, handler_processes=1)
    assert found == [[0, 0]] * JOBS


async def test_a_task_factory_of_an_older_form(app: Mita) -> None:
    def make(loop: asyncio.AbstractEventLoop, coro: Any) -> Any:
        return asyncio.Task(coro, loop=loop)

    @app.task
    async def look(n: int) -> int:
        return mark(n)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(make)
    try:
        assert set(await seen_by(app, look)) == {0}
    finally:
        loop.set_task_factory(None)
