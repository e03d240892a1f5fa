"""`@app.lifespan`: set up when a worker starts, cleaned up when it stops."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import pytest

from mita import Depends, Mita, MitaError, UsageError
from mita.testing import lab
from tests.engine.conftest import working
from tests.waiting import until


def refuse() -> Any:
    raise OSError("no route")


class Pool:
    is_open = True


def declare(app: Mita, log: list[str]) -> Any:
    """Two lifespans, of which the second needs the first, and a task that uses both."""

    @app.lifespan
    @contextmanager
    def settings() -> Iterator[dict[str, str]]:
        log.append("settings")
        yield {"url": "db"}
        log.append("settings over")

    @app.lifespan
    async def pool(settings: Annotated[dict[str, str], Depends(settings)]) -> AsyncIterator[Pool]:
        log.append(f"open {settings['url']}")
        opened = Pool()
        yield opened
        opened.is_open = False
        log.append("close")

    def session(pool: Annotated[Pool, Depends(pool)]) -> Iterator[str]:
        assert pool.is_open
        yield "session"
        assert pool.is_open

    @app.task
    async def use(
        pool: Annotated[Pool, Depends(pool)], session: Annotated[str, Depends(session)]
    ) -> int:
        log.append(session)
        return id(pool)

    return use, pool


async def test_it_is_entered_once_per_worker_and_runs_share_what_it_yields(
    app: Mita, log: list[str]
) -> None:
    use, _ = declare(app, log)
    async with working(app):
        jobs = [await use.enqueue() for _ in range(3)]
        assert len({await job.result(10) for job in jobs}) == 1
    assert log == ["settings", "open db", *["session"] * 3, "close", "settings over"]


async def test_every_worker_has_its_own(app: Mita, log: list[str]) -> None:
    use, _ = declare(app, log)
    for _ in range(2):
        async with working(app):
            await (await use.enqueue()).result(10)
    assert log == ["settings", "open db", "session", "close", "settings over"] * 2


async def test_it_is_set_up_before_the_first_job_and_cleaned_up_after_the_last(
    app: Mita, log: list[str]
) -> None:
    begun = asyncio.Event()

    @app.lifespan
    @asynccontextmanager
    async def slow() -> AsyncIterator[None]:
        await asyncio.sleep(0.05)
        log.append("ready")
        yield
        log.append("over")

    @app.task
    async def work() -> None:
        log.append("begin")
        begun.set()
        await asyncio.sleep(0.05)
        log.append("end")

    await work.enqueue()
    async with working(app):
        await begun.wait()
    assert log == ["ready", "begin", "end", "over"]


async def test_a_worker_does_not_start_if_it_fails_and_the_others_are_cleaned_up(
    app: Mita, log: list[str]
) -> None:
    declare(app, log)

    @app.lifespan
    async def broken() -> AsyncIterator[None]:
        yield refuse()

    with pytest.raises(MitaError, match=r"lifespan .*broken failed.*OSError: no route"):
        await app.worker().run()
    assert log == ["settings", "open db", "close", "settings over"]


async def test_a_clean_up_that_fails_is_logged_and_the_others_go_on(
    app: Mita, log: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    use, _ = declare(app, log)

    @app.lifespan
    def broken() -> Iterator[None]:
        yield
        raise OSError("already gone")

    async with working(app):
        await (await use.enqueue()).result(10)
    assert log[-2:] == ["close", "settings over"]
    assert "the clean-up of " in caplog.text
    assert "already gone" in caplog.text


async def test_a_sync_one_does_not_block_the_event_loop(app: Mita) -> None:
    threads = []

    @app.lifespan
    def model() -> Iterator[None]:
        threads.append(threading.current_thread())
        yield

    async with working(app):
        await until(lambda: threads)
    assert threads != [threading.main_thread()]


async def test_a_worker_that_is_stopped_does_not_wait_for_a_slow_start(
    app: Mita, log: list[str]
) -> None:
    begun = asyncio.Event()

    @app.lifespan
    async def slow() -> AsyncIterator[None]:
        try:
            begun.set()
            await asyncio.Event().wait()
            yield
        finally:
            log.append("stopped")

    async with working(app):
        await begun.wait()
    assert log == ["stopped"]


def test_it_must_yield(app: Mita) -> None:
    with pytest.raises(UsageError, match="must be a generator"):

        @app.lifespan
        async def wrong() -> None: ...


def test_it_cannot_need_a_value_of_one_run(app: Mita) -> None:
    @app.lifespan
    def wrong(x: Annotated[str, Depends(lambda: "")]) -> Iterator[None]:
        yield

    with pytest.raises(UsageError, match="is shared by all runs"):
        app.worker()


async def test_a_lab_enters_it_at_the_first_run_unless_a_test_replaces_it(
    app: Mita, log: list[str]
) -> None:
    use, pool = declare(app, log)
    async with lab(app) as it:
        await use.enqueue()
        assert log == []
        await it.drain()
        await it.drain()
        assert log == ["settings", "open db", "session"]
    assert log[3:] == ["close", "settings over"]
    log.clear()
    fake = Pool()
    async with lab(app) as it:
        it.override(pool, fake)
        job = await use.enqueue()
        await it.drain()
        assert await job.result() == id(fake)
    assert log == ["settings", "session", "settings over"]
