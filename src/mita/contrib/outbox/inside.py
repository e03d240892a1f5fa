"""Writing on the user's own connection, inside a transaction that only the user ends.

How statements run on a connection to PostgreSQL is known to the PostgreSQL store; the same is here
for SQLite."""

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

from mita.errors import UsageError
from mita.ports.outbox_table import POSTGRES, SQLITE, known_dialect

from .databases import NO_TABLE, Answered, Values
from .location import Location, PostgresLocation, SqliteLocation
from .statements import for_sqlite

# how to run a statement, and the database driver's own connection
SyncRunner: TypeAlias = tuple[Callable[[str, Values], Answered], Any]
AsyncRunner: TypeAlias = tuple[Callable[[str, Values], Awaitable[Answered]], Any]

SUPPORTED = (
    "a psycopg, asyncpg, sqlite3 or aiosqlite connection, an SQLAlchemy session or connection, or "
    "a Django connection"
)
_LIBRARIES = {"psycopg", "asyncpg", "sqlite3", "aiosqlite", "sqlalchemy", "django"}
_SESSIONS = {"Session", "scoped_session", "AsyncSession", "async_scoped_session"}
_UNTOUCHED = "Your transaction is untouched"


def _library(connection: Any) -> tuple[str, frozenset[str]]:
    """The library a connection comes from, and the names of its classes. Imports nothing."""
    kinds = type(connection).__mro__
    roots = {kind.__module__.partition(".")[0] for kind in kinds} & _LIBRARIES
    return (roots.pop() if roots else ""), frozenset(kind.__name__ for kind in kinds)


def _dialect(connection: Any) -> str:
    """The kind of database that a connection is to. Raises `UsageError` if it is no connection."""
    library, kinds = _library(connection)
    if library in ("psycopg", "asyncpg"):
        return POSTGRES
    if library in ("sqlite3", "aiosqlite"):
        return SQLITE
    if library == "django":
        return known_dialect(connection.vendor)
    if library == "sqlalchemy" and kinds & _SESSIONS:
        return known_dialect(connection.get_bind().dialect.name)
    if library == "sqlalchemy" and kinds & {"Connection", "AsyncConnection"}:
        return known_dialect(connection.dialect.name)
    raise UsageError(
        f"{type(connection).__name__} is not a connection that can be used here: give {SUPPORTED}"
    )


def _must_be_of(location: Location, connection: Any) -> None:
    dialect = _dialect(connection)
    if dialect != location.dialect:
        raise UsageError(
            f"this connection is to {dialect}, and the outbox is in {location.shown}: use a "
            "connection to that database"
        )


def sync_driver_of(connection: Any, location: Location) -> SyncRunner:
    """Return how to run a statement on a sync connection. Raises `UsageError` if it cannot be part
    of a transaction of this database."""
    _must_be_of(location, connection)
    library, kinds = _library(connection)
    if library == "django":
        return _django(connection)
    if location.dialect == POSTGRES:
        from mita.stores.postgres.transaction.drivers import sync_driver

        return sync_driver(connection)
    if library == "sqlite3":
        _must_be_in_transaction(connection)
        return (lambda text, values: _fetch(connection, text, values)), connection
    if library == "sqlalchemy" and not {"AsyncConnection", "AsyncSession"} & kinds:
        return _sqlalchemy(connection if "Connection" in kinds else connection.connection())
    raise UsageError(f"{type(connection).__name__} is async: use `await ….enqueue(…)`")


async def async_driver_of(connection: Any, location: Location) -> AsyncRunner:
    """`sync_driver_of`, for an async connection."""
    _must_be_of(location, connection)
    library, kinds = _library(connection)
    if library == "django":
        return await _on_djangos_thread(connection)
    if location.dialect == POSTGRES:
        from mita.stores.postgres.transaction.drivers import async_driver

        return await async_driver(connection)
    if library == "aiosqlite":
        await _must_be_in_transaction_async(connection)
        return (lambda text, values: _fetch_async(connection, text, values)), connection
    if library == "sqlalchemy" and kinds & {"AsyncSession", "async_scoped_session"}:
        return await _sqlalchemy_async(await connection.connection())
    if library == "sqlalchemy" and "AsyncConnection" in kinds:
        return await _sqlalchemy_async(connection)
    raise UsageError(
        f"{type(connection).__name__} is not async, and would block the event loop: use "
        "enqueue_sync"
    )


# ------------------------------------------------------------------------------------------ SQLite


def _fetch(connection: Any, text: str, values: Values) -> Answered:
    return [tuple(row) for row in connection.execute(for_sqlite(text), values).fetchall()]


async def _fetch_async(connection: Any, text: str, values: Values) -> Answered:
    cursor = await connection.execute(for_sqlite(text), values)
    return [tuple(row) for row in await cursor.fetchall()]


def _sqlalchemy(connection: Any) -> SyncRunner:
    own = connection.connection.driver_connection
    _must_be_in_transaction(own)

    def run(text: str, values: Values) -> Answered:
        result = connection.exec_driver_sql(for_sqlite(text), values)
        return [tuple(row) for row in result] if result.returns_rows else []

    return run, own


async def _sqlalchemy_async(connection: Any) -> AsyncRunner:
    own = connection.sync_connection.connection.driver_connection
    await _must_be_in_transaction_async(own)

    async def run(text: str, values: Values) -> Answered:
        result = await connection.exec_driver_sql(for_sqlite(text), values)
        return [tuple(row) for row in result] if result.returns_rows else []

    return run, own


def _django(connection: Any) -> SyncRunner:
    if not connection.in_atomic_block and connection.get_autocommit():
        raise _no_transaction("with transaction.atomic():")

    def run(text: str, values: Values) -> Answered:
        with connection.cursor() as cursor:
            cursor.execute(text, values or None)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    return run, connection.connection


async def _on_djangos_thread(connection: Any) -> AsyncRunner:
    """Django's connections belong to the thread that its own `sync_to_async` uses."""
    from asgiref.sync import sync_to_async

    async def run(text: str, values: Values) -> Answered:
        return await sync_to_async(lambda: _django(connection)[0](text, values))()

    return run, await sync_to_async(lambda: _django(connection)[1])()


def _must_be_in_transaction(connection: Any) -> None:
    if _commits_itself(connection):
        raise _no_transaction('connection.execute("begin")')


async def _must_be_in_transaction_async(connection: Any) -> None:
    """The same for aiosqlite. Its SQLite connection answers on the thread of its own only."""
    if await connection._execute(_commits_itself, connection._conn):  # noqa: SLF001
        raise _no_transaction('await connection.execute("begin")')


def _commits_itself(connection: Any) -> bool:
    """Whether a write on this SQLite connection would commit by itself. Without autocommit the
    first write begins a transaction."""
    autocommit = getattr(connection, "autocommit", -1)  # -1, before Python 3.12: by isolation_level
    if autocommit == -1:
        autocommit = connection.isolation_level is None
    return bool(autocommit) and not connection.in_transaction


def _no_transaction(example: str) -> UsageError:
    return UsageError(
        "this connection is not in a transaction (it is in autocommit), so there is nothing for "
        f"the job to be part of: open one around your writes and the enqueue, for example {example}"
    )


# ------------------------------------------------------------------------------------- the table


def check(location: Location, answer: Answered) -> None:
    """Raise `UsageError` if the answer to the statement `check` says that the outbox is not in the
    database of this connection, has no table, or may not be written. Nothing was changed."""
    [(database, has_table, may_write)] = answer
    if isinstance(location, PostgresLocation):
        is_other = location.params.get("dbname") not in (None, database)
    else:
        is_other = not _is_file(location, database)
    if is_other:
        raise UsageError(
            f"this connection is to the database {database or 'in memory'!r}, and the outbox is in "
            f"{location.shown}: use a connection to that database. {_UNTOUCHED}"
        )
    if not has_table:
        raise UsageError(f"{NO_TABLE}. {_UNTOUCHED}")
    if not may_write:
        raise UsageError(
            "the user of this connection may not write to the table mita_outbox: as its owner, "
            f"grant insert, select, update, delete on mita_outbox to this user. {_UNTOUCHED}"
        )


def _is_file(location: SqliteLocation, file: str | None) -> bool:
    with suppress(OSError):
        return bool(file) and os.path.samefile(str(file), location.path)  # noqa: PTH121
    return False
