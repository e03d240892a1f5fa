"""Telling a server that is busy with our statement from a connection whose other end is gone."""

import asyncio
import logging
from types import TracebackType
from typing import Any

import psycopg
from psycopg import AsyncConnection

from .connect import CALL_TIMEOUT_S, PsycopgConnection, hang_up, is_pooled
from .errors import display_address, no_answer

log = logging.getLogger("mita.store")
# A pooler's connection is cut after this many silences: it is not known which session of the server
# works for it, so the server cannot be asked.
POOLED_SILENCES = 4
_IS_AT_WORK = (
    "select state = 'active' and wait_event_type is distinct from 'Client' from "
    "pg_catalog.pg_stat_activity where pid = %s"
)
_checks: set[asyncio.Task[None]] = set()


class SilenceWatchdog:
    """A context in which answers are awaited. After `seconds` it cuts the connection and raises
    `NoAnswerInTime`.

    After every `silence` it asks the server, on a new connection, whether the server is at work for
    this one. If it is not, the statement or its answer was lost on the way, so the connection is
    cut."""

    def __init__(
        self, params: dict[str, Any], connection: PsycopgConnection, seconds: float, silence: float
    ) -> None:
        self._params, self._connection, self._silence = params, connection, silence
        self._loop = asyncio.get_running_loop()
        # a scan of all jobs may really take long
        blind = is_pooled(connection) and seconds <= CALL_TIMEOUT_S
        self._seconds = min(seconds, POOLED_SILENCES * silence) if blind else seconds
        self._gave_up = self._over = False

    def __enter__(self) -> None:
        self._deadline = self._loop.time() + self._seconds
        self._timer = self._loop.call_later(min(self._silence, self._seconds), self._check)

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        self._over = True
        self._timer.cancel()
        if self._gave_up and isinstance(error, psycopg.OperationalError):
            raise no_answer(self._seconds) from error

    def _check(self) -> None:
        left = self._deadline - self._loop.time()
        if left <= 0:
            self._gave_up = True
            hang_up(self._connection)
            return
        if not is_pooled(self._connection):
            check = self._loop.create_task(self._ask_server(self._connection.info.backend_pid))
            _checks.add(check)
            check.add_done_callback(_checks.discard)
        self._timer = self._loop.call_later(min(self._silence, left), self._check)

    async def _ask_server(self, pid: int) -> None:
        """Cut the connection if the server is not at work for it. If the server does not answer
        here either, it is unreachable or overloaded, and we keep waiting."""
        try:
            async with (
                asyncio.timeout(self._silence),
                await AsyncConnection.connect(**self._params, autocommit=True) as other,
            ):
                cursor = await other.execute(_IS_AT_WORK, [pid], prepare=False)
                row = await cursor.fetchone()
        except (psycopg.Error, OSError, TimeoutError):
            return
        await asyncio.sleep(self._silence / 5)  # the answer may be on its way
        if not self._over and not (row and row[0]):
            log.warning(
                "the connection to PostgreSQL at %s is silent: reconnecting",
                display_address(self._params),
            )
            hang_up(self._connection)
