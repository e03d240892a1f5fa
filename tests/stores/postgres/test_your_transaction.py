"""Enqueuing in the user's own transaction, on every kind of connection: the job exists exactly if it commits."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import django  # type: ignore[import-untyped]
import psycopg
import pytest
from django.conf import settings as django_settings  # type: ignore[import-untyped]
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from mita.errors import UsageError
from mita.model.job import NewJob, Receipt, State
from mita.ports.store import Can
from mita.stores.postgres import PostgresStore
from mita.testing.contract.given import QUEUE, claimed_ids, gone, job, state_of

from .server import PORT
from .shared import server


class Undo(Exception):
    """What a user raises to roll back."""


def _sqlalchemy_url(driver: str) -> str:
    return f"postgresql+{driver}://postgres@/postgres?host={server('pg18').folder}&port={PORT}"


# ---------------------------------------------------------------- the async kinds: each commits, or rolls back on an error


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@asynccontextmanager
async def psycopg_async_autocommit(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection, connection.transaction():
        yield connection


@asynccontextmanager
async def asyncpg_plain(_: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(host=str(server("pg18").folder), port=PORT, user="postgres", database="postgres")
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


def sqlalchemy_async(driver: str, *, session: bool) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def kind(_: str) -> AsyncIterator[Any]:
        engine = create_async_engine(_sqlalchemy_url(driver))
        try:
            if session:
                async with AsyncSession(engine) as opened, opened.begin():
                    yield opened
            else:
                async with engine.begin() as connection:
                    yield connection
        finally:
            await engine.dispose()

    return kind


ASYNC_KINDS: dict[str, Callable[[str], AbstractAsyncContextManager[Any]]] = {
    "psycopg": psycopg_async,
    "psycopg, autocommit": psycopg_async_autocommit,
    "asyncpg": asyncpg_plain,
    "sqlalchemy session over asyncpg": sqlalchemy_async("asyncpg", session=True),
    "sqlalchemy session over psycopg": sqlalchemy_async("psycopg", session=True),
    "sqlalchemy connection over asyncpg": sqlalchemy_async("asyncpg", session=False),
}


def everything() -> list[NewJob]:
    """A plain job, and one with all there is."""
    return [job(), job(resource="account:1", unique="order:1", priority=9, headers=b'\xff"\\', task='a "quoted" \\ täsk')]


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_a_job_exists_when_the_transaction_commits(store: PostgresStore, plain_url: str, kind: str) -> None:
    assert Can.ENQUEUE_IN_YOUR_TRANSACTION in store.can
    jobs = everything()
    async with ASYNC_KINDS[kind](plain_url) as connection:
        receipts = await store.enqueue_in(connection, jobs)
        assert await claimed_ids(store) == [], "nobody sees it before the commit"
    assert receipts == [Receipt(new.id) for new in jobs]
    assert await store.queue_names() == [QUEUE]
    assert sorted(await claimed_ids(store)) == sorted(new.id for new in jobs)
    [plain, full] = await store.find([new.id for new in jobs])
    assert plain is not None
    assert full is not None
    assert (full.headers, full.task, full.unique) == (b'\xff"\\', 'a "quoted" \\ täsk', "order:1")


@pytest.mark.parametrize("kind", ASYNC_KINDS)
async def test_a_job_never_was_when_the_transaction_rolls_back(store: PostgresStore, plain_url: str, kind: str) -> None:
    jobs = everything()

    async def user_code() -> None:
        async with ASYNC_KINDS[kind](plain_url) as connection:
            await store.enqueue_in(connection, jobs)
            raise Undo

    with pytest.raises(Undo):
        await user_code()
    assert [await gone(store, new.id) for new in jobs] == [True, True]
    [receipt] = await store.enqueue([job(unique="order:1")])
    assert receipt.created, "its unique key was given back too"


# ---------------------------------------------------------------- the others


@contextmanager
def psycopg_sync(url: str) -> Iterator[Any]:
    with psycopg.connect(url) as connection:
        yield connection


@contextmanager
def sqlalchemy_session(_: str) -> Iterator[Any]:
    engine = create_engine(_sqlalchemy_url("psycopg"))
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_connection(_: str) -> Iterator[Any]:
    engine = create_engine(_sqlalchemy_url("psycopg"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


def _django_connection() -> Any:
    if not django_settings.configured:
        django_settings.configure(
            USE_TZ=True,
            DATABASES={
                "default": {
                    "ENGINE": "django.db.backends.postgresql",
                    "NAME": "postgres",
                    "USER": "postgres",
                    "HOST": str(server("pg18").folder),
                    "PORT": PORT,
                }
            },
        )
        django.setup()
    from django.db import connection  # type: ignore[import-untyped]

    return connection


@contextmanager
def django_atomic(_: str) -> Iterator[Any]:
    from django.db import transaction

    connection = _django_connection()
    try:
        with transaction.atomic():
            yield connection
    finally:
        connection.close()


SYNC_KINDS: dict[str, Callable[[str], AbstractContextManager[Any]]] = {
    "psycopg": psycopg_sync,
    "sqlalchemy session": sqlalchemy_session,
    "sqlalchemy connection": sqlalchemy_connection,
    "django": django_atomic,
}


@pytest.mark.parametrize("kind", SYNC_KINDS)
@pytest.mark.parametrize("commits", [True, False])
async def test_the_same_from_code_that_is_not_async(store: PostgresStore, plain_url: str, kind: str, commits: bool) -> None:
    jobs = everything()

    def user_code() -> list[Receipt]:
        with SYNC_KINDS[kind](plain_url) as connection:
            receipts = store.enqueue_in_sync(connection, jobs)
            if not commits:
                raise Undo
        return receipts

    if commits:
        assert await asyncio.to_thread(user_code) == [Receipt(new.id) for new in jobs]
        assert sorted(await claimed_ids(store)) == sorted(new.id for new in jobs)
    else:
        with pytest.raises(Undo):
            await asyncio.to_thread(user_code)
        assert [await gone(store, new.id) for new in jobs] == [True, True]


@pytest.mark.parametrize("commits", [True, False])
async def test_async_code_joins_djangos_transaction_too(store: PostgresStore, commits: bool) -> None:
    from asgiref.sync import async_to_sync, sync_to_async

    jobs = everything()

    def view() -> None:
        with django_atomic("") as connection:
            async_to_sync(store.enqueue_in)(connection, jobs)
            if not commits:
                raise Undo

    if commits:
        await sync_to_async(view)()
    else:
        with pytest.raises(Undo):
            await sync_to_async(view)()
    assert [not await gone(store, new.id) for new in jobs] == [commits, commits]


# ---------------------------------------------------------------- what else holds


async def test_a_unique_key_in_an_open_transaction_makes_others_wait_for_it(store: PostgresStore, plain_url: str) -> None:
    first = job(unique="order:1")
    async with psycopg_async(plain_url) as connection:
        await store.enqueue_in(connection, [first])
        other = asyncio.ensure_future(store.enqueue([job(unique="order:1")]))
        await asyncio.sleep(0.2)
        assert not other.done(), "whether the key is free is not decided yet"
    assert await other == [Receipt(first.id, created=False)]


async def test_a_job_from_a_long_transaction_is_found_though_claimers_have_walked_on(
    store: PostgresStore, plain_url: str
) -> None:
    """I9: it is due since before anything that claimers have seen."""
    async with psycopg_async(plain_url) as connection:
        [receipt] = await store.enqueue_in(connection, [job()])
        for _ in range(25):
            await store.enqueue([job()])
            await claimed_ids(store)
            await asyncio.sleep(0.1)
    for _ in range(40):
        if await claimed_ids(store):
            break
        await asyncio.sleep(0.1)
    assert await state_of(store, receipt.id) is State.RUNNING


async def test_what_cannot_be_part_of_a_transaction_is_refused(store: PostgresStore, plain_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(plain_url, autocommit=True) as connection:
        with pytest.raises(UsageError, match="not in a transaction"):
            await store.enqueue_in(connection, [job()])
    with pytest.raises(UsageError, match="psycopg or asyncpg"):
        await store.enqueue_in("connection", [job()])
    with psycopg.connect(plain_url) as sync, pytest.raises(UsageError, match="not async"):
        await store.enqueue_in(sync, [job()])
    engine = create_engine("sqlite://")
    with engine.begin() as sqlite, pytest.raises(UsageError, match="speaks sqlite"):
        store.enqueue_in_sync(sqlite, [job()])
    engine.dispose()
    connection = _django_connection()
    with pytest.raises(UsageError, match="not in a transaction"):
        await asyncio.to_thread(store.enqueue_in_sync, connection, [job()])
