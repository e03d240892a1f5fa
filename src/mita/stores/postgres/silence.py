"""Waiting for an answer: whether the server is at work on it, or nobody is at the other end of the
connection any more."""

import asyncio
import logging
from types import TracebackType
from typing import Any

import psycopg
from psycopg import AsyncConnection

from .connection import ANSWER, Connection, hang_up, is_pooled, no_answer, place

log = logging.getLogger("mita.store")
# silences after which a pooler's connection is given up: which server session works for it is not
# known
POOLED = 4
_AT_WORK = (
    "select state = 'active' and wait_event_type is distinct from 'Client' from "
    "pg_catalog.pg_stat_activity where pid = %s"
)
_asking: set[asyncio.Task[None]] = set()


class Waiting:
    """A context in which answers are awaited. After `seconds` in it the connection is lost, and
    `NoAnswer` is raised.

    After every `silence` the server is asked on a connection of its own whether it is at work for
    this one. If it is not, it has not heard the question or its answer was lost: the connection is
    dead and nobody has told us, so it is cut."""

    def __init__(
        self, told: dict[str, Any], connection: Connection, seconds: float, silence: float
    ) -> None:
        self._told, self._connection, self._silence = told, connection, silence
        self._loop = asyncio.get_running_loop()
        # a look at everything may really take long
        blind = is_pooled(connection) and seconds <= ANSWER
        self._seconds = min(seconds, POOLED * silence) if blind else seconds
        self._given_up = self._over = False

    def __enter__(self) -> None:
        self._deadline = self._loop.time() + self._seconds
        self._timer = self._loop.call_later(min(self._silence, self._seconds), self._look)

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        self._over = True
        self._timer.cancel()
        if self._given_up and isinstance(error, psycopg.OperationalError):
            raise no_answer(self._seconds) from error

    def _look(self) -> None:
        left = self._deadline - self._loop.time()
        if left <= 0:
            self._given_up = True
            hang_up(self._connection)
            return
        if not is_pooled(self._connection):
            asking = self._loop.create_task(self._ask_elsewhere(self._connection.info.backend_pid))
            _asking.add(asking)
            asking.add_done_callback(_asking.discard)
        self._timer = self._loop.call_later(min(self._silence, left), self._look)

    async def _ask_elsewhere(self, pid: int) -> None:
        """If nobody answers there either, the server is away or far too busy, and is waited for."""
        try:
            async with (
                asyncio.timeout(self._silence),
                await AsyncConnection.connect(**self._told, autocommit=True) as other,
            ):
                cursor = await other.execute(_AT_WORK, [pid], prepare=False)
                row = await cursor.fetchone()
        except (psycopg.Error, OSError, TimeoutError):
            return
        await asyncio.sleep(self._silence / 5)  # the answer may be on its way
        if not self._over and not (row and row[0]):
            log.warning(
                "the connection to PostgreSQL at %s is silent: connecting again", place(self._told)
            )
            hang_up(self._connection)
