"""The connection to one Redis server: opened when it is needed, watched while calls wait."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from redis import exceptions as theirs
from redis.asyncio.connection import AbstractConnection

from .errors import CUT, is_cut
from .pipelined_socket import LONGEST_CALL_BYTES, NotSent, PipelinedSocket

log = logging.getLogger("mita.store")


class PipelinedClient:
    """Sends calls to one server over one `PipelinedSocket`. redis-py connects; hiredis packs and
    parses.

    A call raises after `timeout` seconds without an answer. After `silence` seconds the client asks
    the server on a second connection whether the first one is dead."""

    def __init__(
        self,
        connect: Callable[[], AbstractConnection],
        timeout: float,
        silence: float,
        where: str,
    ) -> None:
        self._connect = connect
        self._timeout = timeout
        self._silence = min(silence, timeout)
        self._where = where
        self._probe: asyncio.Task[None] | None = None
        self._socket: PipelinedSocket | None = None
        self._opening = asyncio.Lock()
        self._watch: asyncio.TimerHandle | None = None
        self._longest_call = LONGEST_CALL_BYTES

    def limit_calls(self, longest: int) -> None:
        """Refuse calls that are longer than this many bytes."""
        self._longest_call = longest
        if self._socket is not None:
            self._socket.longest_call = longest

    def call(self, *parts: Any) -> Awaitable[Any]:
        """Send a command. Returns the future of its answer itself: a coroutine in between would be
        created, entered and left for each job."""
        if self._socket is None:
            return self._open_and_call(parts)
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(self._silence, self._check)
        return self._socket.call(parts)

    async def _open_and_call(self, parts: tuple[Any, ...]) -> Any:
        await self._open()
        return await self.call(*parts)

    async def _open(self) -> None:
        async with self._opening:
            if self._socket is None:
                self._socket = PipelinedSocket(await self._connected(), self._forget)
                self._socket.longest_call = self._longest_call

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

    def _check(self) -> None:
        """Check how long the oldest call has waited. One timer serves all calls."""
        self._watch = None
        loop = asyncio.get_running_loop()
        if self._socket is None or self._socket.waiting_since is None:
            return
        waited = loop.time() - self._socket.waiting_since
        if waited >= self._timeout:
            self._socket.drop(theirs.TimeoutError(f"no answer for {self._timeout:g} s"))
            return
        if waited >= self._silence and (self._probe is None or self._probe.done()):
            probe = self._probe_server(self._socket, self._socket.waiting_since)
            self._probe = loop.create_task(probe)
        left = (
            self._silence - waited
            if waited < self._silence
            else min(self._silence, self._timeout - waited)
        )
        self._watch = loop.call_later(left, self._check)

    async def _probe_server(self, socket: PipelinedSocket, waiting_since: float) -> None:
        """Call the server on a second connection, and drop `socket` if the server answers there.

        A server handles calls one after the other. If it answers a later call on a new connection,
        the earlier call or its answer was lost: the old connection is dead, although no error said
        so. If it does not answer there either, it is busy or unreachable, and we keep waiting."""
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
        # a server that was busy answers all connections at once, in no certain order
        await asyncio.sleep(self._silence / 5)
        if self._socket is socket and socket.waiting_since == waiting_since:
            log.warning(
                "the connection to %s is silent, but the server answers on a new one: reconnecting",
                self._where,
            )
            why = "the connection was silent, but the server answered on a new one"
            socket.drop(theirs.ConnectionError(why))

    def _forget(self, socket: PipelinedSocket) -> None:
        if self._socket is socket:
            self._socket = None

    def close(self) -> None:
        """Close the connection. Calls that still wait raise."""
        if self._probe is not None:
            self._probe.cancel()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._socket is not None:
            self._socket.drop(theirs.ConnectionError("the store was closed"))
