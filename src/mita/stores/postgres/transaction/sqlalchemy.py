"""The sessions and connections of SQLAlchemy. Nothing of it is imported: its classes are known by
their names."""

from collections.abc import Awaitable, Callable
from typing import Any

from mita.errors import UsageError
from mita.stores.postgres.codec import Rows
from mita.stores.postgres.server.statements import numbered

SESSIONS = frozenset({"Session", "scoped_session"})
ASYNC_SESSIONS = frozenset({"AsyncSession", "async_scoped_session"})
CONNECTIONS, ASYNC_CONNECTIONS = frozenset({"Connection"}), frozenset({"AsyncConnection"})
DRIVERS = ("psycopg", "psycopg2", "asyncpg")
OTHER_DATABASE = (
    "this connection is to {name}, and the jobs are in PostgreSQL: only one database can be part "
    "of a transaction"
)


def connection_of(session: Any) -> Any:
    """The connection of a sync session, in its transaction, which begins now if it has not yet.
    Raises `UsageError` if it has none."""
    try:
        return session.connection()
    except Exception as error:
        raise _explained(error) from error


async def async_connection_of(session: Any) -> Any:
    """`connection_of`, for an async session."""
    try:
        return await session.connection()
    except Exception as error:
        raise _explained(error) from error


def _explained(error: Exception) -> Exception:
    """Mita's error for a session that gives no connection. An error of the database is returned as
    it is."""
    names = {kind.__name__ for kind in type(error).__mro__}
    said = str(error).partition("\n")[0].partition(" (Background on")[0]
    if "UnboundExecutionError" in names:
        return UsageError(
            "this session has several databases (binds=…), or none, so it is not clear which one "
            "the job belongs to. Give the connection instead, for example "
            'task.using(session.connection(bind_arguments={"mapper": Order})); that of an '
            "AsyncSession is awaited"
        )
    if "PendingRollbackError" in names:
        return UsageError(f"{said} Nothing was written: call session.rollback(), and begin again")
    if "InvalidRequestError" in names:
        return UsageError(f"this session has no transaction for the job to be part of: {said}")
    return error


def sync_run(connection: Any) -> tuple[Callable[[str, dict[str, Any]], Rows], Any]:
    """How to run a statement on a sync connection, and the database driver's own connection. Raises
    `UsageError` if it cannot be used."""
    own = _own(connection)
    by_number = connection.dialect.driver == "asyncpg"  # inside AsyncSession.run_sync

    def run(text: str, values: dict[str, Any]) -> Rows:
        result = connection.exec_driver_sql(
            *(_numbered(text, values) if by_number else (text, values))
        )
        return [tuple(row) for row in result] if result.returns_rows else []

    return run, own


def async_run(connection: Any) -> tuple[Callable[[str, dict[str, Any]], Awaitable[Rows]], Any]:
    """`sync_run`, for an async connection."""
    if connection.sync_connection is None:
        raise UsageError(
            "this AsyncConnection has not been started: write `async with engine.connect() as "
            "connection:`"
        )
    own = _own(connection.sync_connection)
    by_number = connection.dialect.driver == "asyncpg"

    async def run(text: str, values: dict[str, Any]) -> Rows:
        result = await connection.exec_driver_sql(
            *(_numbered(text, values) if by_number else (text, values))
        )
        return [tuple(row) for row in result] if result.returns_rows else []

    return run, own


def _numbered(text: str, values: dict[str, Any]) -> tuple[str, tuple[Any, ...]]:
    statement, names = numbered(text)
    return statement.decode(), tuple(values[name] for name in names)


def _own(connection: Any) -> Any:
    """The database driver's connection inside a sync SQLAlchemy connection."""
    name, driver = connection.dialect.name, connection.dialect.driver
    if name != "postgresql":
        raise UsageError(OTHER_DATABASE.format(name=name))
    if driver not in DRIVERS:
        raise UsageError(
            f"SQLAlchemy uses the driver {driver} here, which Mita cannot use: make the engine "
            "with postgresql+psycopg:// or postgresql+asyncpg://"
        )
    if connection.closed:
        raise UsageError(
            "this connection is closed: enqueue before the end of the block that opened it"
        )
    pooled = connection.connection
    if getattr(pooled.dbapi_connection, "autocommit", False):
        raise UsageError(
            "this SQLAlchemy connection is in AUTOCOMMIT, so every statement commits by itself "
            "and there is no transaction for the job to be part of: use an engine or connection "
            'without it, for example connection.execution_options(isolation_level="READ COMMITTED")'
        )
    return pooled.driver_connection
