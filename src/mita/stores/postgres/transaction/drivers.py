"""Running a verb on a user's connection, through the library that the connection comes from.

Each driver runs the statements one by one. It never begins or ends a transaction: that is up to the
user."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from mita.errors import UsageError
from mita.stores.postgres.codec import Rows
from mita.stores.postgres.context import RoundTrips, StoreState
from mita.stores.postgres.server.statements import numbered

from .connection_check import check, check_query, is_checked

T = TypeVar("T")
RunSync = Callable[[str, dict[str, Any]], Rows]
RunAsync = Callable[[str, dict[str, Any]], Awaitable[Rows]]

SUPPORTED = (
    "a psycopg or asyncpg connection, an SQLAlchemy session or connection, or a Django connection"
)


class SyncDriver(NamedTuple):
    """How to run a statement from sync code, and the database driver's own connection."""

    run: RunSync
    connection: Any


class AsyncDriver(NamedTuple):
    """How to run a statement from async code, and the database driver's own connection."""

    run: RunAsync
    connection: Any


def drive_sync(connection: Any, state: StoreState, verb: RoundTrips[T]) -> T:
    """Run a verb on a user's connection, from sync code."""
    run, own = sync_driver(connection)
    if not is_checked(state, own):
        check(state, own, run(*check_query(state)))
    answers: list[Rows] | None = None
    while True:
        try:
            trip = next(verb) if answers is None else verb.send(answers)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        answers = [run(*state.bound(one)) for one in trip.queries]


async def drive_async(connection: Any, state: StoreState, verb: RoundTrips[T]) -> T:
    """Run a verb on a user's connection, from async code."""
    run, own = await async_driver(connection)
    if not is_checked(state, own):
        check(state, own, await run(*check_query(state)))
    answers: list[Rows] | None = None
    while True:
        try:
            trip = next(verb) if answers is None else verb.send(answers)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        answers = [await run(*state.bound(one)) for one in trip.queries]


def _library(connection: Any) -> tuple[str, frozenset[str]]:
    """The library a connection comes from, and the names of its classes. Imports nothing."""
    kinds = type(connection).__mro__
    roots = {kind.__module__.partition(".")[0] for kind in kinds}
    known = roots & {"psycopg", "asyncpg", "sqlalchemy", "django"}
    return (known.pop() if known else ""), frozenset(kind.__name__ for kind in kinds)


# -------------------------------------------------------------------------------------------- sync


def sync_driver(connection: Any) -> SyncDriver:
    """The driver of a sync connection. Raises `UsageError` if it cannot be used."""
    library, kinds = _library(connection)
    if library == "psycopg" and "Connection" in kinds:
        _must_be_in_transaction(_psycopg_is_inside(connection))
        return SyncDriver(lambda text, values: _fetch(connection.execute(text, values)), connection)
    if library == "sqlalchemy" and kinds & {"Session", "scoped_session"}:
        return _sqlalchemy(connection.connection())
    if library == "sqlalchemy" and "Connection" in kinds:
        return _sqlalchemy(connection)
    if library == "django":
        return _django(connection)
    raise UsageError(
        f"{type(connection).__name__} is not a connection that can be used here: give {SUPPORTED}"
    )


def _fetch(cursor: Any) -> Rows:
    return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


def _sqlalchemy(connection: Any) -> SyncDriver:
    own = _sqlalchemy_own(connection)

    def run(text: str, values: dict[str, Any]) -> Rows:
        result = connection.exec_driver_sql(text, values)
        return [tuple(row) for row in result] if result.returns_rows else []

    return SyncDriver(run, own)


def _sqlalchemy_own(connection: Any) -> Any:
    """The database driver's connection inside a sync SQLAlchemy connection."""
    _must_be_postgres(connection.dialect.name)
    pooled = connection.connection
    if getattr(pooled.dbapi_connection, "autocommit", False):
        raise UsageError(
            "this SQLAlchemy connection is in AUTOCOMMIT, so every statement commits by itself "
            "and there is no transaction for the job to be part of: use an engine or connection "
            'without it, for example connection.execution_options(isolation_level="READ COMMITTED")'
        )
    return pooled.driver_connection


def _django(connection: Any) -> SyncDriver:
    """The driver of a connection wrapper, or of `django.db.connection`, which stands for one."""
    _must_be_postgres(connection.vendor)
    _must_be_in_transaction(connection.in_atomic_block or not connection.get_autocommit())

    def run(text: str, values: dict[str, Any]) -> Rows:
        with connection.cursor() as cursor:
            cursor.execute(text, values)
            return _fetch(cursor)

    return SyncDriver(run, connection.connection)


# ------------------------------------------------------------------------------------------- async


async def async_driver(connection: Any) -> AsyncDriver:
    """The driver of an async connection. Raises `UsageError` if it cannot be used."""
    library, kinds = _library(connection)
    if library == "psycopg" and "AsyncConnection" in kinds:
        _must_be_in_transaction(_psycopg_is_inside(connection))
        return AsyncDriver(lambda text, values: _psycopg(connection, text, values), connection)
    if library == "asyncpg":
        _must_be_in_transaction(connection.is_in_transaction())
        own = getattr(connection, "_con", connection)  # a pool lends out a new wrapper each time
        return AsyncDriver(lambda text, values: _asyncpg(connection, text, values), own)
    if library == "sqlalchemy" and kinds & {"AsyncSession", "async_scoped_session"}:
        return _sqlalchemy_async(await connection.connection())
    if library == "sqlalchemy" and "AsyncConnection" in kinds:
        return _sqlalchemy_async(connection)
    if library == "django":
        return await _on_djangos_thread(connection)
    sync_driver(connection)  # raises if it is no connection at all
    raise UsageError(
        f"{type(connection).__name__} is not async, and would block the event loop: use "
        "enqueue_sync"
    )


async def _psycopg(connection: Any, text: str, values: dict[str, Any]) -> Rows:
    cursor = await connection.execute(text, values)
    return [tuple(row) for row in await cursor.fetchall()] if cursor.description else []


async def _asyncpg(connection: Any, text: str, values: dict[str, Any]) -> Rows:
    statement, names = numbered(text)
    rows = await connection.fetch(statement.decode(), *(values[name] for name in names))
    return [tuple(row) for row in rows]


def _sqlalchemy_async(connection: Any) -> AsyncDriver:
    own = _sqlalchemy_own(connection.sync_connection)
    by_number = connection.dialect.driver == "asyncpg"

    async def run(text: str, values: dict[str, Any]) -> Rows:
        if by_number:
            statement, names = numbered(text)
            result = await connection.exec_driver_sql(
                statement.decode(), tuple(values[name] for name in names)
            )
        else:
            result = await connection.exec_driver_sql(text, values)
        return [tuple(row) for row in result] if result.returns_rows else []

    return AsyncDriver(run, own)


async def _on_djangos_thread(connection: Any) -> AsyncDriver:
    """Django's connections belong to the thread that its own `sync_to_async` uses."""
    from asgiref.sync import sync_to_async

    async def run(text: str, values: dict[str, Any]) -> Rows:
        return await sync_to_async(lambda: _django(connection).run(text, values))()

    return AsyncDriver(run, await sync_to_async(lambda: _django(connection).connection)())


# ----------------------------------------------------------------------------------- requirements


def _psycopg_is_inside(connection: Any) -> bool:
    """Whether a transaction is open. Without autocommit the first statement begins one."""
    return not connection.autocommit or connection.info.transaction_status.name != "IDLE"


def _must_be_in_transaction(inside: bool) -> None:
    if not inside:
        raise UsageError(
            "this connection is not in a transaction, so there is nothing for the job to be part "
            "of: open one around your writes and the enqueue, for example `async with "
            "connection.transaction():`"
        )


def _must_be_postgres(name: str) -> None:
    if name != "postgresql":
        raise UsageError(
            f"this connection is to {name}, and the jobs are in PostgreSQL: only one database can "
            "be part of a transaction"
        )
