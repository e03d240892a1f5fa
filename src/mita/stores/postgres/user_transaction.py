"""Your own connection and transaction: the same steps, driven by whatever library you have.

Every driver runs statements one by one and never begins or ends a transaction: that is yours.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

from mita.errors import UsageError

from . import fitness
from .line import Place
from .statements import numbered
from .steps import Rows, Steps

T = TypeVar("T")
Run = Callable[[str, dict[str, Any]], Rows]
RunAsync = Callable[[str, dict[str, Any]], Awaitable[Rows]]

KNOWN = (
    "a psycopg or asyncpg connection, an SQLAlchemy session or connection, or a Django connection"
)


class Sync(NamedTuple):
    """How to run a statement, and the driver's own connection beneath."""

    run: Run
    driver: Any


class Async(NamedTuple):
    run: RunAsync
    driver: Any


def drive_yours(connection: Any, place: Place, steps: Steps[T]) -> T:
    """For code that is not async."""
    run, driver = _sync(connection)
    if not fitness.is_known(place, driver):
        fitness.examine(place, driver, run(*fitness.question(place)))
    answers: list[Rows] | None = None
    while True:
        try:
            step = next(steps) if answers is None else steps.send(answers)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        answers = [run(*place.bound(question)) for question in step.asks]


async def adrive_yours(connection: Any, place: Place, steps: Steps[T]) -> T:
    run, driver = await _async(connection)
    if not fitness.is_known(place, driver):
        fitness.examine(place, driver, await run(*fitness.question(place)))
    answers: list[Rows] | None = None
    while True:
        try:
            step = next(steps) if answers is None else steps.send(answers)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        answers = [await run(*place.bound(question)) for question in step.asks]


def _library(connection: Any) -> tuple[str, frozenset[str]]:
    """The library a connection comes from, and the names of its classes. Nothing is imported to
    find out."""
    kinds = type(connection).__mro__
    roots = {kind.__module__.partition(".")[0] for kind in kinds}
    known = roots & {"psycopg", "asyncpg", "sqlalchemy", "django"}
    return (known.pop() if known else ""), frozenset(kind.__name__ for kind in kinds)


# ---------------------------------------------------------------- not async


def _sync(connection: Any) -> Sync:
    library, kinds = _library(connection)
    if library == "psycopg" and "Connection" in kinds:
        _must_be_in_transaction(_psycopg_is_inside(connection))
        return Sync(lambda text, values: _fetch(connection.execute(text, values)), connection)
    if library == "sqlalchemy" and kinds & {"Session", "scoped_session"}:
        return _sqlalchemy(connection.connection())
    if library == "sqlalchemy" and "Connection" in kinds:
        return _sqlalchemy(connection)
    if library == "django":
        return _django(connection)
    raise UsageError(
        f"{type(connection).__name__} is not a connection that can be used here: give {KNOWN}"
    )


def _fetch(cursor: Any) -> Rows:
    return [tuple(row) for row in cursor.fetchall()] if cursor.description else []


def _sqlalchemy(connection: Any) -> Sync:
    driver = _sqlalchemy_driver(connection)

    def run(text: str, values: dict[str, Any]) -> Rows:
        result = connection.exec_driver_sql(text, values)
        return [tuple(row) for row in result] if result.returns_rows else []

    return Sync(run, driver)


def _sqlalchemy_driver(connection: Any) -> Any:
    """The driver's connection of a connection that is not async, or of the one inside an async
    one."""
    _must_speak_postgres(connection.dialect.name)
    pooled = connection.connection
    if getattr(pooled.dbapi_connection, "autocommit", False):
        raise UsageError(
            "this SQLAlchemy connection is in AUTOCOMMIT, so every statement commits by itself "
            "and there is no transaction "
            "for the job to be part of: use an engine or connection without it, for example "
            'connection.execution_options(isolation_level="READ COMMITTED")'
        )
    return pooled.driver_connection


def _django(connection: Any) -> Sync:
    """A connection wrapper, or what `django.db.connection` is, which stands for one."""
    _must_speak_postgres(connection.vendor)
    _must_be_in_transaction(connection.in_atomic_block or not connection.get_autocommit())

    def run(text: str, values: dict[str, Any]) -> Rows:
        with connection.cursor() as cursor:
            cursor.execute(text, values)
            return _fetch(cursor)

    return Sync(run, connection.connection)


# ---------------------------------------------------------------- async


async def _async(connection: Any) -> Async:
    library, kinds = _library(connection)
    if library == "psycopg" and "AsyncConnection" in kinds:
        _must_be_in_transaction(_psycopg_is_inside(connection))
        return Async(lambda text, values: _psycopg(connection, text, values), connection)
    if library == "asyncpg":
        _must_be_in_transaction(connection.is_in_transaction())
        pooled = getattr(connection, "_con", connection)  # a pool lends out a new wrapper each time
        return Async(lambda text, values: _asyncpg(connection, text, values), pooled)
    if library == "sqlalchemy" and kinds & {"AsyncSession", "async_scoped_session"}:
        return _sqlalchemy_async(await connection.connection())
    if library == "sqlalchemy" and "AsyncConnection" in kinds:
        return _sqlalchemy_async(connection)
    if library == "django":
        return await _on_djangos_thread(connection)
    _sync(connection)  # says so if it is no connection at all
    raise UsageError(
        f"{type(connection).__name__} is not async, and would hold up everybody else: use "
        "enqueue_sync"
    )


async def _psycopg(connection: Any, text: str, values: dict[str, Any]) -> Rows:
    cursor = await connection.execute(text, values)
    return [tuple(row) for row in await cursor.fetchall()] if cursor.description else []


async def _asyncpg(connection: Any, text: str, values: dict[str, Any]) -> Rows:
    statement, names = numbered(text)
    return [
        tuple(row) for row in await connection.fetch(statement, *(values[name] for name in names))
    ]


def _sqlalchemy_async(connection: Any) -> Async:
    driver = _sqlalchemy_driver(connection.sync_connection)
    by_number = connection.dialect.driver == "asyncpg"

    async def run(text: str, values: dict[str, Any]) -> Rows:
        if by_number:
            statement, names = numbered(text)
            result = await connection.exec_driver_sql(
                statement, tuple(values[name] for name in names)
            )
        else:
            result = await connection.exec_driver_sql(text, values)
        return [tuple(row) for row in result] if result.returns_rows else []

    return Async(run, driver)


async def _on_djangos_thread(connection: Any) -> Async:
    """Django's connections belong to the thread that its own `sync_to_async` uses."""
    from asgiref.sync import sync_to_async

    async def run(text: str, values: dict[str, Any]) -> Rows:
        return await sync_to_async(lambda: _django(connection).run(text, values))()

    return Async(run, await sync_to_async(lambda: _django(connection).driver)())


# ---------------------------------------------------------------- what must hold


def _psycopg_is_inside(connection: Any) -> bool:
    """Without autocommit the first statement begins a transaction by itself."""
    return not connection.autocommit or connection.info.transaction_status.name != "IDLE"


def _must_be_in_transaction(inside: bool) -> None:
    if not inside:
        raise UsageError(
            "this connection is not in a transaction, so there is nothing for the job to be part "
            "of: "
            "open one around your writes and the enqueue, for example `async with "
            "connection.transaction():`"
        )


def _must_speak_postgres(name: str) -> None:
    if name != "postgresql":
        raise UsageError(
            f"this connection speaks {name}, and the jobs are in PostgreSQL: only one "
            "transaction can hold both"
        )
