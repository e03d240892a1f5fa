"""Making connections: reading the URL, the settings of our sessions, checking the server."""

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from traceback import clear_frames
from typing import Any, TypeAlias
from urllib.parse import unquote

import psycopg
from psycopg import AsyncConnection, conninfo

from mita import forks
from mita.errors import StoreError, UsageError

from .errors import cannot_connect, display_address, no_answer, translated

OLDEST_SERVER_VERSION = 140000
CALL_TIMEOUT_S = 60.0  # how long one call may take on the server
FIRST_QUERY_TIMEOUT_S = 15.0  # how long the first query on a new connection may take
SCAN_TIMEOUT_S = 300.0  # how long a call may take that may have to read every job
PsycopgConnection: TypeAlias = AsyncConnection[tuple[Any, ...]]

# Every statement of ours is answered by an index that is read in order. A planner that has not seen
# the table's present size must not choose otherwise. The statements never change, so one plan each
# is enough.
WORK_SETTINGS = {
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    # A process that is stopped in the middle of a transaction must not keep its rows locked for
    # long, and no statement waits for ever for a locked row.
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "5s",
}
# A process can also be stopped while it sends a transaction. The server does not count that as
# idle. PostgreSQL 17 has a setting for it. On older servers each session of ours holds a shared
# advisory lock as its mark, and the workers that still run end the session that hangs
# (`reap_end_stopped.sql`).
TRANSACTION_TIMEOUT_S = 60
WORK_SETTINGS_SINCE_17 = {"transaction_timeout": f"{TRANSACTION_TIMEOUT_S}s"}
SESSION_MARK_CODE = 0x6D697461
READ_SETTINGS = {"jit": "off"}

# With the last four, a connection is lost when the other machine has not answered for 20 seconds.
# They do not follow the lease, because libpq takes whole seconds only; `Store.silence` does.
_DEFAULT_PARAMS = {
    "application_name": "mita",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "2",
    "tcp_user_timeout": "20000",
}


def parse(url: str) -> tuple[dict[str, Any], str | None]:
    """Returns the libpq parameters of a URL, and the namespace if the URL names one."""
    head, mark, query = url.partition("?")
    pairs = [pair for pair in query.split("&") if pair]
    spaces = [unquote(pair.partition("=")[2]) for pair in pairs if pair.startswith("namespace=")]
    rest = "&".join(pair for pair in pairs if not pair.startswith("namespace="))
    try:
        params = conninfo.conninfo_to_dict(f"{head}{mark}{rest}" if rest else head)
    except psycopg.ProgrammingError as error:
        raise UsageError(
            f"the PostgreSQL URL cannot be read: {str(error).strip()}. "
            "It looks like postgresql://user:password@host:5432/database?sslmode=require"
        ) from error
    return {**_DEFAULT_PARAMS, **params}, spaces[-1] if spaces else None


async def connect(params: dict[str, Any], settings: dict[str, str]) -> PsycopgConnection:
    """Connect and apply the settings. Raises when the server is unreachable, refuses the login, is
    too old, or is a read-only standby."""
    try:
        connection = await AsyncConnection.connect(**params, autocommit=True, prepare_threshold=0)
    except psycopg.Error as error:
        raise cannot_connect(error, params) from error
    except asyncio.CancelledError as error:
        # the driver's frames hold the half-made connection, and with it an open socket
        clear_frames(error.__traceback__)
        raise
    try:
        with answered_within(FIRST_QUERY_TIMEOUT_S, connection):
            await _prepare(connection, params, settings)
    except psycopg.Error as error:
        await connection.close()
        raise translated(error, params) from error
    except BaseException:
        await connection.close()
        raise
    forks.left(connection, lambda made: [] if made.closed else [made.fileno()])
    return connection


async def _prepare(
    connection: PsycopgConnection, params: dict[str, Any], settings: dict[str, str]
) -> None:
    """Check that the server can be used, and apply the settings."""
    version = connection.info.server_version
    if version < OLDEST_SERVER_VERSION:
        found = f"{version // 10000}.{version % 10000}" if version >= 100000 else str(version)
        raise UsageError(
            f"PostgreSQL {found} at {display_address(params)} is too old: Mita needs 14 or later. "
            "Upgrade the server"
        )
    cursor = await connection.execute("select pg_backend_pid(), pg_is_in_recovery()", prepare=False)
    [(pid, standby)] = await cursor.fetchall()
    if standby:
        raise StoreError(
            f"{display_address(params)} is a read-only standby, and Mita writes. Name the primary "
            "in the URL, or all hosts with ?target_session_attrs=read-write",
            transient=False,
        )
    if pid != connection.info.backend_pid:
        # A pooler answers for the server. It may give each transaction another session, so nothing
        # of a session can be relied on: no prepared statements, and no settings that other clients
        # would inherit.
        connection.prepare_threshold = None
        return
    names = settings
    if settings is WORK_SETTINGS and version >= 170000:
        names = WORK_SETTINGS | WORK_SETTINGS_SINCE_17
    calls = [f"set_config('{name}', '{value}', false)" for name, value in names.items()]
    if names is WORK_SETTINGS:
        calls.append(f"pg_advisory_lock_shared({SESSION_MARK_CODE})")
    await connection.execute(f"select {', '.join(calls)}".encode(), prepare=False)


def is_pooled(connection: PsycopgConnection) -> bool:
    """Whether a pooler stands between this connection and the server."""
    return connection.prepare_threshold is None


@contextmanager
def answered_within(seconds: float, connection: PsycopgConnection) -> Iterator[None]:
    """A context that cuts the connection after this many seconds, and then raises
    `NoAnswerInTime`."""
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


def hang_up(connection: PsycopgConnection) -> None:
    """Shut the socket down, so that the waiting call fails at once. Cancelling the call would not
    do: the driver would ask the server to stop, and wait for its answer."""
    with (
        suppress(psycopg.Error, OSError),
        socket.socket(fileno=os.dup(connection.fileno())) as own,
    ):
        own.shutdown(socket.SHUT_RDWR)
