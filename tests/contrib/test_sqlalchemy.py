"""`task.using(…)` with every kind of SQLAlchemy session and connection: the job exists exactly if
the transaction commits, and what cannot be part of it is refused while it still can be used."""

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    scoped_session,
    sessionmaker,
)

from mita import Mita, UsageError
from mita.stores.postgres.transaction.identity import DatabaseIdentity
from mita.stores.postgres.transaction.sqlalchemy import sync_run
from mita.sync import serves_requests
from tests.stores.postgres.server import PORT
from tests.stores.postgres.shared import fresh_url, server

try:
    from sqlmodel import Session as ModelSession
    from sqlmodel.ext.asyncio.session import AsyncSession as AsyncModelSession
except ImportError:  # it needs a later SQLAlchemy than the oldest one
    HAS_SQLMODEL = False
else:
    HAS_SQLMODEL = True

_numbers = itertools.count(1)


class Base(DeclarativeBase):
    """The tables of these tests' shop."""


class Order(Base):
    __tablename__ = "orders"
    number: Mapped[int] = mapped_column(primary_key=True)


class Account(Base):
    __tablename__ = "accounts"
    number: Mapped[int] = mapped_column(primary_key=True)


def engine_url(driver: str, database: str = "postgres") -> str:
    return f"postgresql+{driver}://postgres@/{database}?host={server('pg18').folder}&port={PORT}"


@pytest.fixture(scope="module")
def other_database() -> Iterator[str]:
    """A second database on the same server."""
    name = f"other{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server("pg18").url(), autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
        yield name
        connection.execute(f"drop database {name} with (force)".encode())


@pytest.fixture
def app() -> Iterator[Mita]:
    app = Mita(fresh_url())

    @app.task(resource="{order}")
    async def bill(order: int) -> int:
        return order

    app.counts_sync()  # the tables are there
    yield app
    app.close_sync()


@pytest.fixture
def bill(app: Mita) -> Any:
    return app.tasks["bill"]


def billed(app: Mita) -> list[int]:
    """The orders of the jobs that are stored."""
    return sorted(int(job.resource or 0) for job in app.jobs_sync(limit=100).jobs)


# ---------------------------------------------------------------- each kind of session


@contextmanager
def sync_engine(driver: str, **options: Any) -> Iterator[Engine]:
    engine = create_engine(engine_url(driver), **options)
    try:
        yield engine
    finally:
        engine.dispose()


@asynccontextmanager
async def async_engine(driver: str, **options: Any) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(engine_url(driver), **options)
    try:
        yield engine
    finally:
        await engine.dispose()


SYNC: dict[str, tuple[str, Callable[[Engine], Any]]] = {
    "Session": ("psycopg", Session),
    "Session of psycopg2": ("psycopg2", Session),
    "Session of a connection": ("psycopg", lambda engine: Session(engine.connect())),
    "scoped_session": ("psycopg", lambda engine: scoped_session(sessionmaker(engine))),
    "Connection": ("psycopg", lambda engine: engine.connect()),
}
ASYNC: dict[str, tuple[str, Callable[[AsyncEngine], Any]]] = {
    "AsyncSession": ("asyncpg", AsyncSession),
    "AsyncSession of psycopg": ("psycopg", AsyncSession),
    "async_scoped_session": (
        "asyncpg",
        lambda engine: async_scoped_session(async_sessionmaker(engine), scopefunc=lambda: 1),
    ),
    "AsyncConnection": ("asyncpg", lambda engine: engine.connect()),
}
if HAS_SQLMODEL:
    SYNC["SQLModel's Session"] = ("psycopg", ModelSession)
    ASYNC["SQLModel's AsyncSession"] = ("asyncpg", AsyncModelSession)


@pytest.mark.parametrize("kind", SYNC)
def test_a_job_exists_exactly_if_its_transaction_commits(app: Mita, bill: Any, kind: str) -> None:
    driver, opened = SYNC[kind]
    with sync_engine(driver) as engine:
        session = opened(engine)
        job = bill.using(session).enqueue_sync(1)  # no begin: SQLAlchemy begins by itself
        savepoint = session.begin_nested()
        bill.using(session).enqueue_sync(2)
        savepoint.rollback()
        bill.using(session).enqueue_sync(3)
        assert billed(app) == [], "not before the commit"
        session.commit()
        assert billed(app) == [1, 3], "the job of the savepoint is gone"
        bill.using(session).enqueue_sync(4)
        session.rollback()
        session.close()
    assert billed(app) == [1, 3]
    assert job.get_sync() is not None


@pytest.mark.parametrize("kind", ASYNC)
async def test_a_job_exists_exactly_if_its_async_transaction_commits(
    app: Mita, bill: Any, kind: str
) -> None:
    driver, opened = ASYNC[kind]
    async with async_engine(driver) as engine:
        session = opened(engine)
        if kind == "AsyncConnection":
            with pytest.raises(UsageError, match="has not been started"):
                await bill.using(session).enqueue(0)
            await session.start()
        await bill.using(session).enqueue(1)
        savepoint = await session.begin_nested()
        await bill.using(session).enqueue(2)
        await savepoint.rollback()
        await bill.using(session).enqueue(3)
        assert billed(app) == []
        await session.commit()
        assert billed(app) == [1, 3]
        await bill.using(session).enqueue(4)
        await session.rollback()
        await session.close()
    assert billed(app) == [1, 3]
    await app.close()


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
async def test_sync_code_inside_an_async_session_joins_it(
    app: Mita, bill: Any, driver: str
) -> None:
    """`AsyncSession.run_sync` runs on the event loop, also on that of a web server."""
    async with async_engine(driver) as engine:
        with serves_requests():
            async with AsyncSession(engine) as session, session.begin():
                await session.run_sync(lambda inner: bill.using(inner).enqueue_sync(1))
    assert billed(app) == [1]


# ---------------------------------------------------------------- refusals


@contextmanager
def usable(session: Session) -> Iterator[None]:
    """The transaction is open before the refusal, and can be used and committed after it."""
    table = f"kept{os.getpid()}_{next(_numbers)}"
    session.execute(text(f"create table {table} (n int)"))
    yield
    session.execute(text(f"insert into {table} values (1)"))
    session.commit()
    assert session.execute(text(f"select n from {table}")).scalars().all() == [1]
    session.execute(text(f"drop table {table}"))
    session.commit()


@asynccontextmanager
async def usable_async(session: AsyncSession) -> AsyncIterator[None]:
    table = f"kept{os.getpid()}_{next(_numbers)}"
    await session.execute(text(f"create table {table} (n int)"))
    yield
    await session.execute(text(f"insert into {table} values (1)"))
    await session.commit()
    assert (await session.execute(text(f"select n from {table}"))).scalars().all() == [1]
    await session.execute(text(f"drop table {table}"))
    await session.commit()


async def refused(app: Mita, url: Callable[[str], str], match: str, **options: Any) -> None:
    """A job is refused on sync and async sessions of this URL, and their transactions go on."""
    bill = app.tasks["bill"]
    for driver in ("psycopg", "psycopg2"):
        engine = create_engine(url(driver), **options)
        with Session(engine) as session, usable(session), pytest.raises(UsageError, match=match):
            bill.using(session).enqueue_sync(1)
        engine.dispose()
    for driver in ("psycopg", "asyncpg"):
        async_ = create_async_engine(url(driver), **options)
        async with AsyncSession(async_) as opened, usable_async(opened):
            with pytest.raises(UsageError, match=match):
                await bill.using(opened).enqueue(1)
        await async_.dispose()
    await app.close()
    assert billed(app) == []


async def test_autocommit_is_refused(app: Mita) -> None:
    await refused(app, engine_url, r"AUTOCOMMIT.*READ COMMITTED", isolation_level="AUTOCOMMIT")


async def test_a_database_without_mita_is_refused(app: Mita, other_database: str) -> None:
    await refused(
        app,
        lambda driver: engine_url(driver, other_database),
        rf"database '{other_database}', which has no jobs of Mita in namespace.*untouched",
    )


async def test_another_database_with_mita_is_refused(app: Mita, other_database: str) -> None:
    """Jobs would be written there without an error, and no worker of this app would run them."""
    space = app.url.namespace
    there = Mita(f"{server('pg18').url(other_database)}&namespace={space}")
    there.counts_sync()
    there.close_sync()
    await refused(
        app,
        lambda driver: engine_url(driver, other_database),
        rf"database '{other_database}', which has jobs of Mita, too, but not those of this app",
    )


def test_the_search_path_of_the_session_does_not_matter(app: Mita, bill: Any) -> None:
    with sync_engine("psycopg") as engine, Session(engine) as session:
        session.execute(text("create schema if not exists shop; set local search_path to shop"))
        bill.using(session).enqueue_sync(1)
        session.commit()
        session.execute(text("drop schema shop"))
        session.commit()
    assert billed(app) == [1]


def test_a_read_only_transaction_is_refused(app: Mita, bill: Any) -> None:
    with sync_engine("psycopg") as engine, Session(engine) as session:
        session.execute(text("set transaction read only"))
        with pytest.raises(UsageError, match=r"read-only.*untouched"):
            bill.using(session).enqueue_sync(1)
        assert session.execute(text("select 1")).scalar() == 1
        session.rollback()
        bill.using(session).enqueue_sync(2)
        session.commit()
    assert billed(app) == [2]


def test_a_session_with_two_databases_must_say_which(
    app: Mita, bill: Any, other_database: str
) -> None:
    other = create_engine(engine_url("psycopg", other_database))
    with sync_engine("psycopg") as engine:
        with Session(binds={Order: engine, Account: other}) as session:
            with pytest.raises(UsageError, match=r"several databases.*bind_arguments"):
                bill.using(session).enqueue_sync(1)
            orders = session.connection(bind_arguments={"mapper": Order})
            bill.using(orders).enqueue_sync(2)
            accounts = session.connection(bind_arguments={"mapper": Account})
            with pytest.raises(UsageError, match=f"database '{other_database}'"):
                bill.using(accounts).enqueue_sync(3)
            session.commit()
        with Session(other, binds={Order: engine}) as session:
            with pytest.raises(UsageError, match=r"session.connection\(bind_arguments=…\)"):
                bill.using(session).enqueue_sync(4)
            session.rollback()
    other.dispose()
    assert billed(app) == [2]


async def test_a_transaction_with_a_failed_statement_is_refused(app: Mita, bill: Any) -> None:
    match = r"earlier statement of this transaction failed.*begin_nested"
    for driver in ("psycopg", "psycopg2"):
        with sync_engine(driver) as engine, Session(engine) as session:
            bill.using(session).enqueue_sync(0)  # the connection is checked
            with pytest.raises(DBAPIError):
                session.execute(text("select 1/0"))
            with pytest.raises(UsageError, match=match):
                bill.using(session).enqueue_sync(1)
            session.rollback()
            bill.using(session).enqueue_sync(2)
            session.commit()
    async with async_engine("asyncpg") as async_, AsyncSession(async_) as opened:
        with pytest.raises(DBAPIError):
            await opened.execute(text("select 1/0"))
        with pytest.raises(UsageError, match=match):
            await bill.using(opened).enqueue(1)
        await opened.rollback()
        await bill.using(opened).enqueue(2)
        await opened.commit()
    assert billed(app) == [2, 2, 2]
    await app.close()


def test_a_session_after_a_failed_flush_is_refused(app: Mita, bill: Any) -> None:
    with sync_engine("psycopg") as engine, Session(engine) as session:
        session.execute(text("create temporary table orders (number int primary key)"))
        session.add(Order(number=1))
        session.flush()
        session.expunge_all()
        session.add(Order(number=1))
        with pytest.raises(IntegrityError):
            session.flush()
        with pytest.raises(UsageError, match=r"earlier|rolled back"):
            bill.using(session).enqueue_sync(1)
        session.rollback()
        bill.using(session).enqueue_sync(2)
        session.commit()
    assert billed(app) == [2]


def test_a_failure_inside_a_savepoint_leaves_the_transaction_usable(app: Mita, bill: Any) -> None:
    with sync_engine("psycopg") as engine, Session(engine) as session:
        savepoint = session.begin_nested()
        bill.using(session).enqueue_sync(1)
        with pytest.raises(DBAPIError):
            session.execute(text("select 1/0"))
        savepoint.rollback()
        bill.using(session).enqueue_sync(2)
        session.commit()
    assert billed(app) == [2]


async def test_what_is_closed_or_has_not_begun_is_refused(app: Mita, bill: Any) -> None:
    with sync_engine("psycopg") as engine:
        connection = engine.connect()
        connection.close()
        with pytest.raises(UsageError, match="connection is closed"):
            bill.using(connection).enqueue_sync(1)
        session = Session(engine, autobegin=False)
        with pytest.raises(UsageError, match=r"no transaction.*session.begin\(\)"):
            bill.using(session).enqueue_sync(1)
        session.close()
        session = Session(engine)
        session.close()  # SQLAlchemy lets it be used again: a new transaction begins
        bill.using(session).enqueue_sync(2)
        session.commit()
        session.close()
    async with async_engine("asyncpg") as async_:
        async with async_.connect() as opened:
            pass
        with pytest.raises(UsageError, match=r"connection is closed|not been started"):
            await bill.using(opened).enqueue(1)
    assert billed(app) == [2]
    await app.close()


async def test_async_and_sync_are_not_mixed_up(app: Mita, bill: Any) -> None:
    async with async_engine("asyncpg") as engine, AsyncSession(engine) as session:
        with pytest.raises(UsageError, match=r"AsyncSession is async: `await`"):
            bill.using(session).enqueue_sync(1)
    match = r"Session is not async.*use enqueue_sync"
    with (
        sync_engine("psycopg") as plain,
        Session(plain) as opened,
        pytest.raises(UsageError, match=match),
    ):
        await bill.using(opened).enqueue(1)
    await app.close()
    assert billed(app) == []


def test_an_unknown_driver_is_refused() -> None:
    dialect = SimpleNamespace(name="postgresql", driver="pg8000")
    with pytest.raises(UsageError, match=r"driver pg8000.*postgresql\+psycopg://"):
        sync_run(SimpleNamespace(dialect=dialect))


async def test_a_server_that_started_again_is_still_the_same_database() -> None:
    told = ["5@1000"]

    async def ask() -> str:
        return told[0]

    identity = DatabaseIdentity()
    assert not await identity.is_other("5@1000"), "the store is not open: it cannot be compared"
    identity.opened(ask)
    assert not await identity.is_other("5@1000")
    assert await identity.is_other("6@1000")
    told[0] = "5@2000"
    assert not await identity.is_other("5@2000")
    assert not await _in_thread(lambda: identity.is_other_sync("5@2000"))
    told[0] = "5@3000"
    assert not await _in_thread(lambda: identity.is_other_sync("5@3000"))
    assert await _in_thread(lambda: identity.is_other_sync("7@3000"))


def _in_thread(call: Callable[[], bool]) -> Awaitable[bool]:
    return asyncio.to_thread(call)
