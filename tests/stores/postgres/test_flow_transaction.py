"""A flow in a transaction of the user's own: all of it, or nothing."""

from pathlib import Path
from typing import Any

import psycopg
import pytest

from mita import Mita, UsageError
from tests.engine.conftest import working

from .shared import fresh_url, server


class Tasks:
    def __init__(self, app: Mita) -> None:
        @app.task
        async def one(n: int) -> int:
            return n

        @app.task
        async def total(numbers: list[int]) -> int:
            return sum(numbers)

        self.one, self.total = one, total


@pytest.fixture
async def app() -> Any:
    async with Mita(fresh_url()) as app:
        await app.counts()
        yield app


@pytest.mark.parametrize("members", [3, 150, 1200])
async def test_a_flow_exists_exactly_if_the_transaction_commits(app: Mita, members: int) -> None:
    tasks = Tasks(app)
    for commit in (False, True):
        group = app.group([tasks.one.call(n) for n in range(members)]).then(tasks.total.call)
        async with await psycopg.AsyncConnection.connect(server("pg18").url()) as connection:
            run = await group.using(connection).enqueue()
            assert await run.get() is None
            await (connection.commit() if commit else connection.rollback())
        assert (await run.get() is not None) is commit
    async with working(app):
        await run.wait(timeout=60)
    record = await run.get()
    assert record is not None
    assert {str(step.state) for step in record.steps} == {"succeeded"}
    assert (await app.get(record.steps[-1].id)).result == sum(range(members))  # type: ignore[union-attr]
    assert (await app.counts())["default"].get("ready", 0) == 0


async def test_a_flow_from_sync_code(app: Mita) -> None:
    tasks = Tasks(app)
    chain = app.chain(tasks.one.call(7), tasks.one.call)
    with psycopg.connect(server("pg18").url()) as connection:
        run = chain.using(connection).enqueue_sync()
        assert await run.get() is None
    async with working(app):
        await run.wait(timeout=60)


async def test_a_connection_without_a_transaction_is_refused(app: Mita) -> None:
    tasks = Tasks(app)
    chain = app.chain(tasks.one.call(7), tasks.one.call)
    async with await psycopg.AsyncConnection.connect(
        server("pg18").url(), autocommit=True
    ) as connection:
        with pytest.raises(UsageError, match="transaction"):
            await chain.using(connection).enqueue()
    with pytest.raises(UsageError, match="a psycopg or asyncpg connection"):
        await chain.using("no connection").enqueue()
    assert (await app.flows()).flows == ()


async def test_other_stores_refuse_it_with_the_remedy(tmp_path: Path) -> None:
    async with Mita(f"sqlite:///{tmp_path}/jobs.db") as app:
        tasks = Tasks(app)
        with pytest.raises(UsageError, match="Enqueue after the commit instead"):
            await app.chain(tasks.one.call(7)).using(object()).enqueue()
        assert (await app.flows()).flows == ()
