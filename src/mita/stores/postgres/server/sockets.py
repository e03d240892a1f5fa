"""libpq's own functions, for wake-ups: no task has to be started or woken on the way."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import psycopg
from psycopg import pq

from .connect import PsycopgConnection


class SocketReader:
    """A context that calls `received` whenever data has come in on a connection that has no other
    reader. `lost` is done when the connection is lost."""

    def __init__(self, connection: PsycopgConnection, received: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._pgconn, self._fd, self._received = connection.pgconn, connection.fileno(), received
        self._reads = False
        self.lost: asyncio.Future[None] = self._loop.create_future()

    def __enter__(self) -> "SocketReader":
        self._reads = True
        self._loop.add_reader(self._fd, self._read)
        self._read()  # what came while we were still connecting
        return self

    def __exit__(self, *ignored: object) -> None:
        # once: after that another connection may have the same socket number
        if self._reads:
            self._reads = False
            self._loop.remove_reader(self._fd)
        # a task that waited for it and was cancelled has cancelled it as well
        if not self.lost.done():
            self.lost.set_result(None)

    def _read(self) -> None:
        try:
            self._pgconn.consume_input()
            self._received()
        except psycopg.Error:
            self.__exit__()


class NotifySender:
    """A connection that sends notifications. The caller does not wait for the answer, but the next
    notification is not sent before it has come."""

    def __init__(self, connection: PsycopgConnection) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._quoted = pq.Escaping(self._pgconn).escape_literal
        self._answered = asyncio.Event()
        self._answered.set()
        self._reader = SocketReader(connection, self._read_answer)
        self._reader.__enter__()
        self._reader.lost.add_done_callback(lambda _: self._answered.set())  # no answer will come
        self.pid = connection.info.backend_pid

    @property
    def is_free(self) -> bool:
        """Whether a notification can be sent now."""
        return self._answered.is_set() and not self._reader.lost.done()

    async def wait_free(self, timeout_s: float) -> bool:
        """Wait for the last answer. Returns whether a notification can be sent now."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._answered.wait()
        return self.is_free

    def send(self, channel: str, message: bytes) -> None:
        """Send one notification. Raises `psycopg.Error` if the connection is lost."""
        self._answered.clear()
        try:
            self._pgconn.send_query(b'notify "%b", %b' % (channel.encode(), self._quoted(message)))
            # only one short message is ever under way, so the socket's buffer has room for it
            self._pgconn.flush()
        except psycopg.Error:
            # libpq has closed the socket, and another connection may soon have its number
            self._reader.__exit__()
            raise

    def _read_answer(self) -> None:
        """The content of the answer does not matter, only that it came."""
        while not self._answered.is_set() and not self._pgconn.is_busy():
            if self._pgconn.get_result() is None:
                self._answered.set()

    async def close(self) -> None:
        """Disconnect."""
        self._reader.__exit__()
        with suppress(psycopg.Error, OSError):
            await self._connection.close()
