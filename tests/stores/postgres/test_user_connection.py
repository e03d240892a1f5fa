"""A connection on which no job can be written is refused with a remedy, and its transaction is as
it was."""

import asyncio

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from mita.errors import UsageError
from mita.stores.postgres import PostgresStore
from mita.stores.postgres.transaction.connection_check import is_checked
from mita.stores.postgres.transaction.drivers import async_driver, sync_driver
from mita.testing.contract.given import job

from .shared import server
from .user_connections import ASYNC_KINDS, SYNC_KINDS, psycopg_async, sqlalchemy_url


@pytest.mark.parametrize("session", [True, False])
@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_an_sqlalchemy_connection_in_autocommit_is_refused(
    store: PostgresStore, driver: str, session: bool
) -> None:
    engine = create_async_engine(sqlalchemy_url(driver), isolation_level="AUTOCOMMIT")
    async with AsyncSession(engine) if session else engine.connect() as connection:
        with pytest.raises(UsageError, match=r"AUTOCOMMIT.*READ COMMITTED"):
            await store.enqueue_in(connection, [job()])
    await engine.dispose()
    if driver == "psycopg":
        sync = create_engine(sqlalchemy_url(driver), isolation_level="AUTOCOMMIT")
        with (
            Session(sync) if session else sync.connect() as plain,
            pytest.raises(UsageError, match="AUTOCOMMIT"),
        ):
            store.enqueue_in_sync(plain, [job()])
        sync.dispose()
    assert await store.queue_names() == []


def elsewhere(kind: str) -> PostgresStore:
    """A store whose jobs are not in the database that the users' connections of these tests are
    to."""
    return PostgresStore(f"{server('pg18').url()}&namespace=not_there_{kind}")


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_a_connection_to_a_database_without_mita_keeps_its_transaction(
    plain_url: str, kind: str
) -> None:
    async with ASYNC_KINDS[kind](plain_url) as connection:
        run = (await async_driver(connection)).run
        for _ in range(2):
            with pytest.raises(
                UsageError,
                match=r"database 'postgres'.*namespace 'not_there_a'.*transaction is untouched",
            ):
                await elsewhere("a").enqueue_in(connection, [job()])
            assert await run("select 1", {}) == [(1,)], "its transaction goes on"


@pytest.mark.parametrize("kind", SYNC_KINDS)
async def test_the_same_holds_for_sync_code(plain_url: str, kind: str) -> None:
    def user_code() -> None:
        with SYNC_KINDS[kind](plain_url) as connection:
            with pytest.raises(UsageError, match="has no jobs of Mita"):
                elsewhere("b").enqueue_in_sync(connection, [job()])
            assert sync_driver(connection).run("select 1", {}) == [(1,)]

    await asyncio.to_thread(user_code)


async def test_the_error_for_a_user_without_rights_says_what_to_grant(
    store: PostgresStore, plain_url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(plain_url) as connection:
        await connection.execute("create role reader")
        await connection.execute("set local role reader")
        with pytest.raises(UsageError, match=r"user 'reader'.*grant usage"):
            await store.enqueue_in(connection, [job()])
        assert (await connection.execute("select 1")).pgresult is not None
        await connection.rollback()


async def test_a_connection_is_checked_once(store: PostgresStore, plain_url: str) -> None:
    async with psycopg_async(plain_url) as connection:
        await store.enqueue_in(connection, [job()])
        assert is_checked(store._state, connection)
