"""The app's side of your own transaction, with a real worker."""

import asyncio
from typing import Any

import psycopg
import pytest

from mita import Job, Mita, Retry, UsageError
from tests.engine.conftest import until_state, working

from .shared import fresh_url, server


@pytest.fixture
async def app() -> Any:
    app = Mita(fresh_url())
    yield app
    await app.close()


async def _effects() -> str:
    name = f"effects_{id(object())}"
    async with await psycopg.AsyncConnection.connect(server("pg18").url()) as connection:
        await connection.execute(f"create table {name} (job text, token bigint)")
    return name


async def _rows(table: str) -> list[Any]:
    async with await psycopg.AsyncConnection.connect(server("pg18").url()) as connection:
        return await (await connection.execute(f"select job, token from {table}")).fetchall()


@pytest.mark.parametrize("scheme", ["postgres", "postgresql+psycopg", "postgresql+asyncpg"])
async def test_a_url_may_be_written_as_other_libraries_write_it(scheme: str) -> None:
    async with Mita(fresh_url().replace("postgresql", scheme, 1)) as app:
        assert await app.counts() == {}


async def test_a_job_exists_exactly_if_the_transaction_commits(app: Mita) -> None:
    @app.task
    async def work(n: int) -> int:
        return n

    await app.counts()
    for commit in (False, True):
        async with await psycopg.AsyncConnection.connect(server("pg18").url()) as connection:
            handle = await work.using(connection).after(60).enqueue(1)
            assert await handle.get() is None
            await (connection.commit() if commit else connection.rollback())
        assert (await handle.get() is not None) is commit
    with psycopg.connect(server("pg18").url()) as plain:
        sync = work.using(plain).enqueue_sync(2)
        assert await sync.get() is None
    assert await sync.get() is not None


async def test_effect_and_success_are_there_together_or_not_at_all(app: Mita) -> None:
    table = await _effects()

    @app.task(retry=Retry(max_retries=2, base=0.01))
    async def pay(job: Job) -> str:
        async with await psycopg.AsyncConnection.connect(server("pg18").url()) as connection:
            await connection.execute(f"insert into {table} values (%s, %s)", [job.id, job.token])
            await job.complete_in(connection, "paid")
            if job.attempt == 1:
                raise RuntimeError("before the commit: nothing of this run may stay")
        return "paid"

    @app.task
    def pay_sync(job: Job) -> str:
        with psycopg.connect(server("pg18").url()) as connection:
            connection.execute(f"insert into {table} values (%s, %s)", [job.id, job.token])
            job.complete_in_sync(connection, "paid on a thread")
        return "paid on a thread"

    async with working(app):
        first, second = await pay.enqueue(), await pay_sync.enqueue()
        assert await first.result(timeout=20) == "paid"
        assert await second.result(timeout=20) == "paid on a thread"
        record = await until_state(app, first.id, "succeeded")
    assert record.attempts == 1
    assert sorted(job for job, _ in await _rows(table)) == sorted([first.id, second.id])


async def test_other_stores_say_that_they_cannot() -> None:
    app = Mita("memory://")

    @app.task
    async def work() -> None: ...

    with pytest.raises(UsageError, match="only postgresql:// can"):
        await work.using(object()).enqueue()
    await app.close()


async def test_the_last_progress_before_a_completion_is_kept(app: Mita) -> None:
    @app.task
    async def crawl(job: Job) -> str:
        for page in range(1, 21):
            await job.progress(page, 20)
        async with await psycopg.AsyncConnection.connect(server("pg18").url()) as connection:
            await job.complete_in(connection, "done")
        return "done"

    @app.task
    def crawl_sync(job: Job) -> str:
        for page in range(1, 21):
            job.progress_sync(page, 20)
        with psycopg.connect(server("pg18").url()) as connection:
            job.complete_in_sync(connection, "done")
        return "done"

    async with working(app):
        for task in (crawl, crawl_sync):
            handle = await task.enqueue()
            assert await handle.result(timeout=20) == "done"
            record = await until_state(app, handle.id, "succeeded")
            assert record.progress == (20, 20, "")


async def test_progress_after_a_completion_waits_for_the_end_of_the_run(app: Mita) -> None:
    """The handler's transaction has the job locked until it ends: a report that waited for it would
    wait for ever."""

    @app.task(retry=Retry(max_retries=1, base=0.001))
    async def crawl(job: Job) -> float | None:
        if job.attempt > 1:
            return job.checkpoint.done if job.checkpoint else None
        async with await psycopg.AsyncConnection.connect(server("pg18").url()) as connection:
            await job.complete_in(connection)
            await job.progress(1, 2)
            await job.progress(2, 2)
            await connection.rollback()
        raise ValueError("rolled back: so it is not done, and goes on where it was")

    async with working(app):
        assert await (await crawl.enqueue()).result(timeout=20) == 2


async def test_a_store_that_is_closed_leaves_nothing_behind_on_the_loop(app: Mita) -> None:
    """A loop that still reads from a closed socket fails the next connection that gets the same
    number."""
    loop: Any = asyncio.get_running_loop()
    before = set(loop._selector.get_map())
    store = await app.open_store()
    await store.wait(["default"], 0.01)
    await store.close()
    assert set(loop._selector.get_map()) == before
