"""Connections of our own to the user's database: for the relay, and for what people ask."""

import asyncio
import json
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

from mita.errors import MitaError, StoreError, UsageError
from mita.ports.outbox_table import TABLE, create_statements

from .location import Location, SqliteLocation
from .statements import for_sqlite

T = TypeVar("T")
Values = dict[str, Any]
Answered = list[tuple[Any, ...]]

CALL_TIMEOUT_S = 30.0
BUSY_TIMEOUT_S = 5.0  # for another writer of an SQLite file
NO_TABLE = (
    f"the database has no table {TABLE}: create it with `mita outbox create`, or put the SQL that "
    "`mita outbox sql` prints into a migration"
)


class OutboxConnection(Protocol):
    """A connection to the database of an outbox."""

    async def open(self, *, create: bool = False) -> None:
        """Connect. With `create`, an SQLite file that is not there is made."""

    async def run(self, *statements: tuple[str, Values]) -> Answered:
        """Run these statements in one transaction. Returns the rows of the last one."""

    async def lock(self, name: str) -> bool:
        """Try to become the only one that has this lock. It lasts until the connection ends,
        however it ends."""

    async def close(self) -> None:
        """Disconnect."""


def connection_to(location: Location) -> OutboxConnection:
    """Return a connection to this database; it is not open yet."""
    if isinstance(location, SqliteLocation):
        return SqliteOutboxConnection(location.path)
    return PostgresOutboxConnection(location.params)


async def create_table(connection: OutboxConnection, dialect: str) -> None:
    """Create the table, unless it is there."""
    await connection.run(*((statement, {}) for statement in create_statements(dialect)))


class PostgresOutboxConnection:
    """A connection to PostgreSQL. The lock is an advisory lock of the session."""

    def __init__(self, params: dict[str, Any]) -> None:
        self._params = params
        self._connection: Any = None

    async def open(self, *, create: bool = False) -> None:  # noqa: ARG002
        """Connect."""
        from mita.stores.postgres.server.connect import READ_SETTINGS, connect

        self._connection = await connect(self._params, READ_SETTINGS)

    async def run(self, *statements: tuple[str, Values]) -> Answered:
        """Run these statements in one transaction. Returns the rows of the last one."""
        import psycopg

        from mita.stores.postgres.server.errors import translated

        rows: Answered = []
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S), self._connection.transaction():
                for text, values in statements:
                    cursor = await self._connection.execute(text, values or None)
                    rows = await cursor.fetchall() if cursor.description else []
        except psycopg.errors.UndefinedTable as error:
            raise UsageError(NO_TABLE) from error
        except psycopg.Error as error:
            raise translated(error, self._params) from error
        except TimeoutError as error:
            text = f"the database of the outbox did not answer for {CALL_TIMEOUT_S:g} s"
            raise StoreError(text, transient=True) from error
        return rows

    async def lock(self, name: str) -> bool:
        """Try to get the advisory lock of this name."""
        text = "select pg_try_advisory_lock(hashtextextended(%(name)s, 0))"
        [(got,)] = await self.run((text, {"name": f"{TABLE} {name}"}))
        return bool(got)

    async def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            with suppress(MitaError, OSError):
                await self._connection.close()


class SqliteOutboxConnection:
    """A connection to an SQLite file, on a thread of its own. The lock is an exclusive transaction
    on a file beside it, so that it never stands in the way of the user's own writes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mita-outbox")
        self._connection: sqlite3.Connection | None = None
        self._lock: sqlite3.Connection | None = None

    async def open(self, *, create: bool = False) -> None:
        """Open the file. Raises `StoreError` if there is none, unless `create`."""
        mode = "rwc" if create else "rw"
        await self._on_thread(lambda: self._open(f"{self._path.as_uri()}?mode={mode}"))

    def _open(self, uri: str) -> None:
        self._connection = sqlite3.connect(
            uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None
        )

    async def run(self, *statements: tuple[str, Values]) -> Answered:
        """Run these statements in one transaction. Returns the rows of the last one."""
        return await self._on_thread(lambda: self._run(statements))

    def _run(self, statements: tuple[tuple[str, Values], ...]) -> Answered:
        assert self._connection is not None  # noqa: S101
        rows: Answered = []
        only_reads = all(text.startswith("select") for text, _ in statements)
        self._connection.execute("begin" if only_reads else "begin immediate")
        try:
            for text, values in statements:
                bound = {k: json.dumps(v) if isinstance(v, list) else v for k, v in values.items()}
                rows = self._connection.execute(for_sqlite(text), bound).fetchall()
            self._connection.execute("commit")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
        return rows

    async def lock(self, name: str) -> bool:
        """Try to begin an exclusive transaction on the file beside the database."""
        return await self._on_thread(lambda: self._try_lock(name))

    def _try_lock(self, name: str) -> bool:
        beside = self._path.with_name(f"{self._path.name}-{name}-relay")
        lock = sqlite3.connect(beside, timeout=0, isolation_level=None)
        try:
            lock.execute("begin exclusive")
        except sqlite3.OperationalError as error:
            lock.close()
            if "locked" in str(error):
                return False
            raise
        self._lock = lock
        return True

    async def close(self) -> None:
        """Close the file and give the lock up."""
        for connection in (self._lock, self._connection):
            if connection is not None:
                with suppress(MitaError):
                    await self._on_thread(connection.close)
        self._thread.shutdown(wait=False)

    async def _on_thread(self, act: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, act)
        except sqlite3.Error as error:
            if f"no such table: {TABLE}" in str(error):
                raise UsageError(NO_TABLE) from error
            text = f"the outbox in {self._path} cannot be used: {error}"
            if not self._path.exists():
                text = (
                    f"there is no file {self._path} for the outbox: is the path right? `mita "
                    "outbox create` makes the file and the table"
                )
            raise StoreError(text, transient=True) from error
