"""Connecting, and turning the driver's errors into ours."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from traceback import clear_frames
from typing import Any
from urllib.parse import unquote

import psycopg
from psycopg import AsyncConnection, conninfo, errors

from mita import forks
from mita.errors import MitaError, Rejected, StoreError, UsageError
from mita.stores.shared.words import UNREACHED

OLDEST = 140000
ANSWER = 60.0  # seconds that the server may take over one call
FIRST_ANSWER = 15.0  # over the first question on a new connection
ANSWER_SLOWLY = 300.0  # where all jobs may have to be looked at
Connection = AsyncConnection[tuple[Any, ...]]

# What we ask is always answered by an index, walked in order: a planner that has not seen the
# table's present size must not think otherwise. The statements are the same for ever, so they are
# planned once.
TUNED = {
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # A process that is stopped in the middle of a transaction must not keep its rows from everybody
    # else, and nobody waits for ever for rows that somebody keeps.
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "5s",
}
# Also in the middle of sending one, where the server does not count it as idle. Older servers know
# no limit for that: there a lock that many can have marks the session as ours, and the workers that
# still run end it (`end_stopped`).
LONGEST = 60  # seconds
TUNED_SINCE_17 = {"transaction_timeout": f"{LONGEST}s"}
OURS = 0x6D697461
UNTUNED = {"jit": "off"}

# The last four: a connection is lost when the machine at its other end has not answered for 20
# seconds. They do not follow the lease, since libpq takes only whole seconds; `Store.silence` does.
_DEFAULTS = {
    "application_name": "mita",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "2",
    "tcp_user_timeout": "20000",
}


def parse(url: str) -> tuple[dict[str, Any], str | None]:
    """What the driver is told, and the namespace if the URL names one."""
    head, mark, query = url.partition("?")
    pairs = [pair for pair in query.split("&") if pair]
    spaces = [unquote(pair.partition("=")[2]) for pair in pairs if pair.startswith("namespace=")]
    rest = "&".join(pair for pair in pairs if not pair.startswith("namespace="))
    try:
        told = conninfo.conninfo_to_dict(f"{head}{mark}{rest}" if rest else head)
    except psycopg.ProgrammingError as error:
        raise UsageError(
            f"the PostgreSQL URL cannot be read: {str(error).strip()}. "
            "It looks like postgresql://user:password@host:5432/database?sslmode=require"
        ) from error
    return {**_DEFAULTS, **told}, spaces[-1] if spaces else None


def place(told: dict[str, Any]) -> str:
    """Where that is, for messages: never the password."""
    host = told.get("host") or told.get("hostaddr") or "the local socket"
    return f"{host}:{told.get('port') or 5432}/{told.get('dbname') or told.get('user') or ''}"


# ---------------------------------------------------------------- a server that hangs


class NoAnswer(psycopg.OperationalError):
    """The server keeps the connection and says nothing. What was asked may have been done, or may
    still be."""


@contextmanager
def answered_within(seconds: float, connection: Connection) -> Iterator[None]:
    """After that many seconds the connection is lost."""
    loop = asyncio.get_running_loop()
    limit = loop.call_later(seconds, hang_up, connection)
    try:
        yield
    except psycopg.OperationalError as error:
        if loop.time() < limit.when():
            raise
        raise no_answer(seconds) from error
    finally:
        limit.cancel()


def no_answer(seconds: float) -> NoAnswer:
    return NoAnswer(
        f"no answer for {seconds:g} s: is the server stopped, or its disk full, or is it far too "
        "busy?"
    )


def hang_up(connection: Connection) -> None:
    """Whoever waits hears that no answer will come. Cancelling the wait would not do: the driver
    would then ask the server to stop, and wait for that."""
    with (
        suppress(psycopg.Error, OSError),
        socket.socket(fileno=os.dup(connection.fileno())) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)


# ---------------------------------------------------------------- connecting


async def connect(told: dict[str, Any], settings: dict[str, str]) -> Connection:
    try:
        connection = await AsyncConnection.connect(**told, autocommit=True, prepare_threshold=0)
    except psycopg.Error as error:
        raise _cannot_connect(error, told) from error
    except asyncio.CancelledError as error:
        # the driver's hold the half-made connection, and with it an open socket
        clear_frames(error.__traceback__)
        raise
    try:
        with answered_within(FIRST_ANSWER, connection):
            await _examine(connection, told, settings)
    except psycopg.Error as error:
        await connection.close()
        raise translated(error, told) from error
    except BaseException:
        await connection.close()
        raise
    forks.left(connection, lambda made: [] if made.closed else [made.fileno()])
    return connection


async def _examine(connection: Connection, told: dict[str, Any], settings: dict[str, str]) -> None:
    """That the server is one we can work with."""
    version = connection.info.server_version
    if version < OLDEST:
        found = f"{version // 10000}.{version % 10000}" if version >= 100000 else str(version)
        raise UsageError(
            f"PostgreSQL {found} at {place(told)} is too old: Mita needs 14 or later. Upgrade "
            "the server"
        )
    cursor = await connection.execute("select pg_backend_pid(), pg_is_in_recovery()", prepare=False)
    [(pid, standby)] = await cursor.fetchall()
    if standby:
        raise StoreError(
            f"{place(told)} is a read-only standby: Mita writes. Name the primary in the URL, "
            "or all hosts with ?target_session_attrs=read-write",
            transient=False,
        )
    if pid != connection.info.backend_pid:
        # A pooler answers for the server. It may hand each transaction to another session, so
        # nothing of a session may be relied on: no prepared statements, and no settings that others
        # would inherit.
        connection.prepare_threshold = None
        return
    if settings is TUNED and version >= 170000:
        settings = TUNED | TUNED_SINCE_17
    wanted = [f"set_config('{name}', '{value}', false)" for name, value in settings.items()]
    if settings is TUNED:
        wanted.append(f"pg_advisory_lock_shared({OURS})")
    await connection.execute(f"select {', '.join(wanted)}".encode(), prepare=False)


def is_pooled(connection: Connection) -> bool:
    return connection.prepare_threshold is None


# ---------------------------------------------------------------- errors

_WRONG = (
    "does not exist",
    "authentication failed",
    "no pg_hba.conf entry",
    "no password supplied",
    "translate host name",
)
_MISSING = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.InvalidSchemaName,
)
_ROLLED_BACK = (
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.LockNotAvailable,
    errors.IdleInTransactionSessionTimeout,
)
_PASSING = (
    *_ROLLED_BACK,
    errors.QueryCanceled,
    # the primary has become a standby: the next connection may find the new one
    errors.ReadOnlySqlTransaction,
    errors.InvalidSqlStatementName,  # a pooler has lost our prepared statements
    errors.DuplicatePreparedStatement,
)


def _cannot_connect(error: psycopg.Error, told: dict[str, Any]) -> MitaError:
    text = str(error).strip()
    if any(sign in text for sign in _WRONG):
        return UsageError(
            f"PostgreSQL at {place(told)} does not let us in: {text}. Mend the URL, or the "
            "server's rights"
        )
    if "read-only" in text or "hot standby" in text:
        return StoreError(
            f"no server at {place(told)} takes writes now: {text}. Name the primary", transient=True
        )
    reason = text.partition("\n")[0]  # the lines after it guess
    return StoreError(
        f"cannot reach PostgreSQL at {place(told)} ({reason}). {UNREACHED}", transient=True
    )


def translated(error: psycopg.Error, told: dict[str, Any]) -> MitaError:
    """Our error for the driver's."""
    text = str(error).strip()
    if isinstance(error, errors.InsufficientPrivilege):
        return UsageError(
            f"the user of {place(told)} has not the rights it needs: {text}. As the owner, run "
            "`mita migrate`, then "
            "grant usage on the schema and all on its tables and sequences to this user"
        )
    if isinstance(error, _MISSING):
        return StoreError(
            f"{place(told)}: {text}. The schema is not up to date: run `mita migrate`",
            transient=False,
        )
    if is_rejected(error):
        return Rejected(f"{place(told)}: {text} ({type(error).__name__})")
    return StoreError(
        f"{place(told)}: {text} ({type(error).__name__})", transient=is_passing(error)
    )


def is_rejected(error: psycopg.Error) -> bool:
    """Whether it is the data that the server does not take: a value out of range or too long, a
    rule or trigger of the table, a limit of the program. It has no code of its own for a value that
    is too long for its memory."""
    state = error.sqlstate or ""
    if not state:
        return isinstance(error, psycopg.DataError)
    return state.startswith(("22", "23", "54", "P0")) or (
        state == "XX000" and "memory alloc" in str(error)
    )


def is_passing(error: psycopg.Error) -> bool:
    """Whether trying again may help."""
    state = error.sqlstate or ""
    if not state:
        return isinstance(error, psycopg.OperationalError)
    return state.startswith(("08", "53", "57P")) or isinstance(error, _PASSING)


def was_rolled_back(error: psycopg.Error) -> bool:
    """Whether it is certain that nothing was done."""
    return isinstance(
        error, (*_ROLLED_BACK, errors.ReadOnlySqlTransaction, errors.InvalidSqlStatementName)
    )
