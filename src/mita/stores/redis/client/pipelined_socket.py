"""One open socket to a Redis server that carries many calls at once.

A server answers in the order in which it was called. So a call is sent without waiting for the
answers of earlier calls, and the answers are matched to the calls by their order."""

# ruff: noqa: SLF001  (redis-py has no public way to its transport; these four names are the same
# since its version 5)

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from hiredis import Reader, pack_command
from redis import exceptions as theirs
from redis.asyncio.connection import AbstractConnection

from mita import forks
from mita.errors import Rejected

# No part of a call may be longer than the server's proto-max-bulk-len: the server closes the
# connection of a client that sends more. This is its value unless the server is configured.
LONGEST_CALL_BYTES = 512 * 1024 * 1024
_INCOMPLETE = object()  # what the parser returns while an answer has not arrived completely


class NotSent(theirs.ConnectionError):
    """There was no connection, so the call was not sent. It is safe to retry any call."""


def too_long(size: int, limit: int) -> Rejected:
    """The error for a call of `size` bytes where the server allows `limit`."""
    return Rejected(
        f"{size:,} bytes in one call are more than this server accepts ({limit:,}: its "
        "proto-max-bulk-len). Enqueue smaller jobs, or raise that setting of the server"
    )


class PipelinedSocket(asyncio.Protocol):
    """An open socket. redis-py connected it and logged in; from then on its transport passes data
    directly to this class, which costs a call half as much as redis-py's streams do.

    `lost` is called once when the socket is closed. `pushed` receives messages that are not the
    answer to a call."""

    def __init__(
        self,
        connection: AbstractConnection,
        lost: Callable[["PipelinedSocket"], None],
        pushed: Callable[[Any], None] | None = None,
    ) -> None:
        assert connection._writer is not None, "it was connected just now"  # noqa: S101
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._lost = lost
        self._pushed = pushed
        self._reader = Reader(
            protocolError=theirs.InvalidResponse,
            replyError=connection._parser.parse_error,
            notEnoughData=_INCOMPLETE,
        )
        self.longest_call = LONGEST_CALL_BYTES
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._transport: asyncio.WriteTransport = connection._writer.transport
        self._streams: asyncio.BaseProtocol = self._transport.get_protocol()
        self._transport.set_protocol(self)
        forks.left(self, lambda socket: forks.number_of(socket._transport))

    def call(self, parts: tuple[Any, ...]) -> asyncio.Future[Any]:
        """Send a command. Returns a future of its answer."""
        packed = pack_command(parts)
        if len(packed) > self.longest_call and (
            # the server limits each part, and no script is nearly as long as that
            parts[0] != "EVAL" or len(packed) - len(parts[1]) > self.longest_call
        ):
            raise too_long(len(packed), self.longest_call)
        answer = self._loop.create_future()
        self._waiting.append((answer, self._loop.time()))
        self._transport.write(packed)
        return answer

    def send(self, parts: tuple[Any, ...]) -> None:
        """Send a command whose answer goes to `pushed`."""
        self._transport.write(pack_command(parts))

    @property
    def waiting_since(self) -> float | None:
        """When the oldest unanswered call was sent, by the event loop's clock. None: there is no
        unanswered call."""
        return self._waiting[0][1] if self._waiting else None

    def data_received(self, data: bytes) -> None:
        """Parse what arrived (asyncio calls this)."""
        self._reader.feed(data)
        try:
            while (answer := self._reader.gets(False)) is not _INCOMPLETE:
                self._deliver(answer)
        except theirs.InvalidResponse as error:
            self.drop(theirs.ConnectionError(f"the connection was cut: {error}"))

    def _deliver(self, answer: Any) -> None:
        if self._pushed is not None and not self._waiting:
            self._pushed(answer)
            return
        waiter, _ = self._waiting.popleft()
        if waiter.done():  # its caller was cancelled
            return
        if isinstance(answer, Exception):
            waiter.set_exception(answer)
        else:
            waiter.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport was closed (asyncio calls this)."""
        self._streams.connection_lost(exc)
        self.drop(
            theirs.ConnectionError(f"the connection was cut: {exc or 'the server closed it'}")
        )

    def drop(self, error: Exception) -> None:
        """Close the socket. Every unanswered call raises `error`."""
        self._lost(self)
        unanswered, self._waiting = self._waiting, deque()
        for waiter, _ in unanswered:
            if not waiter.done():
                waiter.set_exception(error)
        self._connection._close()  # type: ignore[no-untyped-call]
