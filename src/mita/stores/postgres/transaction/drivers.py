"""Running a verb on a user's connection, through the library that the connection comes from.

Each driver runs the statements one by one. It never begins or ends a transaction: that is up to the
user."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from mita.errors import UsageError
from mita.stores.postgres.codec import Rows
from mita.stores.postgres.context import RoundTrips, StoreState
from mita.stores.postgres.server.statements import numbered

from .connection_check import CheckAnswer, check, check_query, is_checked
from .sqlalchemy import (
    ASYNC_CONNECTIONS,
    ASYNC_SESSIONS,
    CONNECTIONS,
    OTHER_DATABASE,
    SESSIONS,
    async_connection_of,
    async_run,
    connection_of,
    sync_run,
)

T = TypeVar("T")
RunSync = Callable[[str, dict[str, Any]], Rows]
RunAsync = Callable[[str, dict[str, Any]], Awaitable[Rows]]

IN_FAILED_TRANSACTION = "25P02"  # what PostgreSQL answers to each statement after one has failed
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
    try:
        if not is_checked(state, own):
            answer = CheckAnswer(*run(*check_query(state))[0])
            check(state, own, answer, is_other=state.identity.is_other_sync(answer.identity))
        answers: list[Rows] | None = None
        while True:
            try:
                trip = next(verb) if answers is None else verb.send(answers)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            answers = [run(*state.bound(one)) for one in trip.queries]
    except Exception as error:
        _must_not_be_aborted(error)
        raise


async def drive_async(connection: Any, state: StoreState, verb: RoundTrips[T]) -> T:
    """Run a verb on a user's connection, from async code."""
    run, own = await async_driver(connection)
    try:
        if not is_checked(state, own):
            answer = CheckAnswer(*(await run(*check_query(state)))[0])
            check(state, own, answer, is_other=await state.identity.is_other(answer.identity))
        answers: list[Rows] | None = None
        while True:
            try:
                trip = next(verb) if answers is None else verb.send(answers)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            answers = [await run(*state.bound(one)) for one in trip.queries]
    except Exception as error:
        _must_not_be_aborted(error)
        raise


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
    if library == "sqlalchemy" and kinds & SESSIONS:
        return SyncDriver(*sync_run(connection_of(connection)))
    if library == "sqlalchemy" and kinds & CONNECTIONS:
        return SyncDriver(*sync_run(connection))
    if library == "django":
        return _django(connection)
    if library == "asyncpg" or kinds & (ASYNC_SESSIONS | ASYNC_CONNECTIONS):
        raise UsageError(
            f"{type(connection).__name__} is async: `await` the method without _sync, for example "
            "await task.using(session).enqueue(…)"
        )
    raise UsageError(
        f"{type(connection).__name__} is not a connection that can be used here: give {SUPPORTED}"
    )


def _fetch(cursor: Any) -> Rows:
    return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


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
    if library == "sqlalchemy" and kinds & ASYNC_SESSIONS:
        return AsyncDriver(*async_run(await async_connection_of(connection)))
    if library == "sqlalchemy" and kinds & ASYNC_CONNECTIONS:
        return AsyncDriver(*async_run(connection))
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
        raise UsageError(OTHER_DATABASE.format(name=name))


def _must_not_be_aborted(error: Exception) -> None:
    """Raise `UsageError` if this error means that an earlier statement of the user's transaction
    failed. Each library wraps the driver's error in its own way."""
    origin = getattr(error, "orig", None) or error.__cause__ or error
    code = getattr(origin, "sqlstate", None) or getattr(origin, "pgcode", None)
    if code == IN_FAILED_TRANSACTION:
        raise UsageError(
            "an earlier statement of this transaction failed, and PostgreSQL refuses all others "
            "until you roll back, so nothing was written. Roll back and begin again, or put a "
            "savepoint (session.begin_nested()) around what may fail"
        ) from error
