"""The app's side of your own transaction, with a real worker."""

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
