"""One connection on which many calls travel at once: answers come in the order of the questions."""

# ruff: noqa: SLF001  (redis-py has no public way to its transport; these four names are the same since its version 5)

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from hiredis import Reader, pack_command
from redis import exceptions as theirs
from redis.asyncio.connection import AbstractConnection

from mita import forks
from mita.errors import Rejected

from .errors import CUT, is_cut

log = logging.getLogger("mita.store")
Connect = Callable[[], AbstractConnection]
# Bytes of one call. No part of a call may be longer than the server's proto-max-bulk-len, which is
# this unless it is set: the server ends the connection of a client that sends more.
MOST_BYTES = 512 * 1024 * 1024
_MORE = object()  # the answer has not come whole yet


class NotSent(theirs.ConnectionError):
    """There was no connection, so whatever was to be asked was not: trying again is safe for any
    call."""


def too_long(size: int, most: int) -> Rejected:
    return Rejected(
        f"{size:,} bytes in one call are more than this server takes ({most:,}: its "
        "proto-max-bulk-len)"
    )


class Line(asyncio.Protocol):
    """An open connection. redis-py made it and logged in; from there on its transport speaks with
    us alone, which costs a call half as much as its streams do. `heard` is given what comes without
    having been asked for."""

    def __init__(
        self,
        connection: AbstractConnection,
        lost: Callable[["Line"], None],
        heard: Callable[[Any], None] | None = None,
    ) -> None:
        assert connection._writer is not None, "it was connected just now"  # noqa: S101
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._lost = lost
        self._heard = heard
        self._reader = Reader(
            protocolError=theirs.InvalidResponse,
            replyError=connection._parser.parse_error,
            notEnoughData=_MORE,
        )
        self.most = MOST_BYTES
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._transport: asyncio.WriteTransport = connection._writer.transport
        self._streams: asyncio.BaseProtocol = self._transport.get_protocol()
        self._transport.set_protocol(self)
        forks.left(self, lambda line: forks.number_of(line._transport))

    def ask(self, parts: tuple[Any, ...]) -> asyncio.Future[Any]:
        packed = pack_command(parts)
        if len(packed) > self.most:
            raise too_long(len(packed), self.most)
        answer = self._loop.create_future()
        self._waiting.append((answer, self._loop.time()))
        self._transport.write(packed)
        return answer

    def send(self, parts: tuple[Any, ...]) -> None:
        """Whatever comes of it is given to `heard`."""
        self._transport.write(pack_command(parts))

    @property
    def oldest(self) -> float | None:
        """Since when somebody waits for an answer."""
        return self._waiting[0][1] if self._waiting else None

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (answer := self._reader.gets(False)) is not _MORE:
                self._give(answer)
        except theirs.InvalidResponse as error:
            self.drop(theirs.ConnectionError(f"the connection was cut: {error}"))

    def _give(self, answer: Any) -> None:
        if self._heard is not None and not self._waiting:
            self._heard(answer)
            return
        asked, _ = self._waiting.popleft()
        if asked.done():  # whoever asked has gone
            return
        if isinstance(answer, Exception):
            asked.set_exception(answer)
        else:
            asked.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._streams.connection_lost(exc)
        self.drop(
            theirs.ConnectionError(f"the connection was cut: {exc or 'the server closed it'}")
        )

    def drop(self, error: Exception) -> None:
        """Nobody who still waits will get an answer."""
        self._lost(self)
        lost, self._waiting = self._waiting, deque()
        for asked, _ in lost:
            if not asked.done():
                asked.set_exception(error)
        self._connection._close()  # type: ignore[no-untyped-call]


class Wire:
    """redis-py connects; hiredis packs and parses. Whoever asks does not wait for those who asked
    before to be answered."""

    def __init__(self, connect: Connect, timeout: float, silence: float, where: str) -> None:
        self._connect = connect
        self._timeout = timeout
        self._silence = min(silence, timeout)
        self._where = where
        self._probe: asyncio.Task[None] | None = None
        self._line: Line | None = None
        self._opening = asyncio.Lock()
        self._watch: asyncio.TimerHandle | None = None
        self._most = MOST_BYTES

    def limit(self, most: int) -> None:
        """No call may be longer than so many bytes."""
        self._most = most
        if self._line is not None:
            self._line.most = most

    def ask(self, *parts: Any) -> Awaitable[Any]:
        """The answer itself, on its way: no coroutine stands between it and whoever asks."""
        if self._line is None:
            return self._open_and_ask(parts)
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(self._silence, self._look)
        return self._line.ask(parts)

    async def _open_and_ask(self, parts: tuple[Any, ...]) -> Any:
        await self._open()
        return await self.ask(*parts)

    async def _open(self) -> None:
        async with self._opening:
            if self._line is None:
                self._line = Line(await self._connected(), self._lost)
                self._line.most = self._most

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

    def _look(self) -> None:
        """One timer for all who wait: has the one who has waited longest waited too long?"""
        self._watch = None
        loop = asyncio.get_running_loop()
        if self._line is None or self._line.oldest is None:
            return
        waited = loop.time() - self._line.oldest
        if waited >= self._timeout:
            self._line.drop(theirs.TimeoutError(f"no answer for {self._timeout:g} s"))
            return
        if waited >= self._silence and (self._probe is None or self._probe.done()):
            self._probe = loop.create_task(self._ask_elsewhere(self._line, self._line.oldest))
        left = (
            self._silence - waited
            if waited < self._silence
            else min(self._silence, self._timeout - waited)
        )
        self._watch = loop.call_later(left, self._look)

    async def _ask_elsewhere(self, line: Line, oldest: float) -> None:
        """A server does one thing after the other. If it answers on a new connection what was asked
        later, it has not heard what was asked on the old one, or its answer was lost: the
        connection is dead, and nobody has told us. If it does not answer there either, it is busy
        or away, and is waited for."""
        connection = self._connect()
        try:
            async with asyncio.timeout(self._timeout):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command("PING")
                await connection.read_response()
        except (*CUT, TimeoutError):
            return
        finally:
            await connection.disconnect(nowait=True)
        # a server that was busy answers all at once, in no certain order
        await asyncio.sleep(self._silence / 5)
        if self._line is line and line.oldest == oldest:
            log.warning(
                "the connection to %s is silent, and the server answers on another: connecting "
                "again",
                self._where,
            )
            line.drop(
                theirs.ConnectionError(
                    "the connection was silent, and the server answered on another"
                )
            )

    def _lost(self, line: Line) -> None:
        if self._line is line:
            self._line = None

    def close(self) -> None:
        if self._probe is not None:
            self._probe.cancel()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._line is not None:
            self._line.drop(theirs.ConnectionError("the store was closed"))
