"""One connection on which many calls travel at once: answers come in the order of the questions."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hiredis import pack_command
from redis import exceptions as theirs
from redis.asyncio.connection import AbstractConnection

from .errors import CUT, is_cut

Connect = Callable[[], AbstractConnection]


class NotSent(theirs.ConnectionError):
    """There was no connection, so whatever was to be asked was not: trying again is safe for any call."""


class Wire:
    """redis-py connects, packs and parses. Whoever asks does not wait for those who asked before to be answered."""

    def __init__(self, connect: Connect, timeout: float) -> None:
        self._connect = connect
        self._timeout = timeout
        self._connection: AbstractConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._opening = asyncio.Lock()

    async def ask(self, *parts: Any) -> Any:
        connection = self._connection or await self._open()
        packed = pack_command(parts)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        try:
            async with asyncio.timeout(self._timeout):
                await connection.send_packed_command([packed], check_health=False)
                return await answer
        except TimeoutError as error:
            await self.close(f"no answer for {self._timeout:g} s")
            raise theirs.TimeoutError(f"no answer for {self._timeout:g} s") from error
        finally:
            answer.cancel()  # for when nobody waits for it any more; what is done stays done

    async def _open(self) -> AbstractConnection:
        async with self._opening:
            if self._connection is None:
                self._connection = connection = await self._connected()
                self._reader = asyncio.create_task(self._read(connection))
            return self._connection

    async def _connected(self) -> AbstractConnection:
        connection = self._connect()
        try:
            async with asyncio.timeout(self._timeout):
                await connection.connect()  # type: ignore[no-untyped-call]
        except CUT as error:
            if is_cut(error):
                raise NotSent(str(error)) from error
            raise
        return connection

    async def _read(self, connection: AbstractConnection) -> None:
        try:
            while True:
                try:
                    answer = await connection.read_response(disable_decoding=True)
                except theirs.ResponseError as error:
                    self._give(error)
                else:
                    self._give(answer)
        except (theirs.RedisError, OSError) as error:
            self._drop(connection, error)

    def _give(self, answer: Any) -> None:
        asked = self._waiting.popleft()
        if asked.done():  # whoever asked has gone
            return
        if isinstance(answer, Exception):
            asked.set_exception(answer)
        else:
            asked.set_result(answer)

    def _drop(self, connection: AbstractConnection, error: Exception) -> None:
        """Nobody who still waits will get an answer."""
        if self._connection is connection:
            self._connection = None
        lost, self._waiting = self._waiting, deque()
        for asked in lost:
            if not asked.done():
                asked.set_exception(theirs.ConnectionError(f"the connection was cut: {error}"))

    async def close(self, why: str = "the store was closed") -> None:
        connection, reader = self._connection, self._reader
        self._connection = self._reader = None
        if connection is None:
            return
        if reader is not None:
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader
        self._drop(connection, theirs.ConnectionError(why))
        with suppress(theirs.RedisError, OSError):
            await connection.disconnect(nowait=True)
