"""Wake-ups: LISTEN on one connection, NOTIFY on another, after the commit and never within it.

A NOTIFY inside a transaction makes its commit wait for all other commits that notify. Ours are sent
after the commit, at most one every few milliseconds, with all topics of that time in one message.
A worker sleeps until it arrives, so both ends use libpq directly (`server.sockets`)."""

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq

from mita.errors import MitaError
from mita.stores.shared.wakeups import ANY, WakeupBuffer

from .context import StoreState
from .server.connect import connect
from .server.sockets import NotifySender, SocketReader

LISTEN_CHECK_SILENCES = 2  # `Store.silence` so often, then the listening connection is checked
MESSAGE_BYTES = 7900  # PostgreSQL allows 8000
SEND_INTERVAL_S = 0.005  # between two notifications
SEND_TIMEOUT_S = 2.0  # how long a notification may take
LISTEN_RETRY_S = 1.0  # before listening is tried again
# A notification that is lost in a crash costs a second of sleep at most: it need not wait for the
# disk.
_SENDER_SETTINGS = {"synchronous_commit": "off"}
log = logging.getLogger("mita.store")
_TROUBLE = (psycopg.Error, MitaError, OSError)


class PostgresNotifier:
    """Sends wake-ups to all processes, and receives theirs."""

    def __init__(self, state: StoreState) -> None:
        self._state = state
        self._channel = f"mita_{state.statements.namespace}"
        self._wakeups = WakeupBuffer()
        self._unsent: set[str] = set()
        self._send_after_s = 0.0
        self._send_later: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._sender: NotifySender | None = None
        self._answered = True  # whether the last check of the listening connection was answered

    # ------------------------------------------------------------------------------------- sending

    def notify(self, topics: set[str]) -> None:
        """Wake the sleepers of these topics: at once in this process, by NOTIFY in all others."""
        if self._listener is not None:
            self._wakeups.add(topics)
        self._unsent |= topics
        loop = asyncio.get_running_loop()
        if self._sender is not None and self._sender.is_free and loop.time() >= self._send_after_s:
            with suppress(*_TROUBLE):  # a worker that is not woken polls once a second
                self._send(self._sender)
        elif self._send_later is None or self._send_later.done():
            self._send_later = loop.create_task(self._send_unsent())

    async def _send_unsent(self) -> None:
        """Send what could not be sent at once, because the last message was too recent or there was
        no connection."""
        while self._unsent:
            await asyncio.sleep(self._send_after_s - asyncio.get_running_loop().time())
            try:
                sender = await self._free_sender()
                if self._unsent:
                    self._send(sender)
            except _TROUBLE:
                self._unsent.clear()

    def _send(self, sender: NotifySender) -> None:
        topics, self._unsent = self._unsent, set()
        self._send_after_s = asyncio.get_running_loop().time() + SEND_INTERVAL_S
        message = "\n".join(sorted(topics)).encode()
        sender.send(self._channel, message if len(message) <= MESSAGE_BYTES else ANY.encode())

    async def _free_sender(self) -> NotifySender:
        if self._sender is not None and not await self._sender.wait_free(SEND_TIMEOUT_S):
            await self._sender.close()
            self._sender = None
        if self._sender is None:
            self._sender = NotifySender(await connect(self._state.params, _SENDER_SETTINGS))
        return self._sender

    # ----------------------------------------------------------------------------------- receiving

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        """Wait for a wake-up of these queues (None: of any). Returns its topics, or nothing after
        the timeout. The first call begins to listen and returns the queues at once, because earlier
        wake-ups were missed."""
        if self._listener is None:
            self._listener = asyncio.get_running_loop().create_task(self._listen())
            with suppress(TimeoutError):
                async with asyncio.timeout(max(timeout, 1.0)):
                    await self._listening.wait()
            return frozenset(queues or {ANY})
        return await self._wakeups.wait(queues, timeout)

    async def _listen(self) -> None:
        """Listen until the store is closed, again after the connection was lost."""
        while True:
            with suppress(*_TROUBLE):
                await self._listen_once()
            await asyncio.sleep(LISTEN_RETRY_S)

    async def _listen_once(self) -> None:
        async with await connect(
            self._state.params, {"application_name": "mita listen"}
        ) as connection:
            await connection.execute(f'listen "{self._channel}"'.encode(), prepare=False)
            if self._listening.is_set():
                self._wakeups.add({ANY})  # wake-ups were missed while the connection was lost
            self._listening.set()
            with SocketReader(connection, lambda: self._received(connection.pgconn)) as reader:
                await self._until_silent(connection.pgconn, reader)

    async def _until_silent(self, pgconn: pq.abc.PGconn, reader: SocketReader) -> None:
        """Return when the connection is lost, or when the server does not answer on it any more."""
        while True:
            self._answered = False
            pgconn.send_query(b"select 1")
            pgconn.flush()  # the socket's buffer has room for a few bytes
            await asyncio.wait([reader.lost], timeout=LISTEN_CHECK_SILENCES * self._state.silence)
            if reader.lost.done():
                return
            if not self._answered:
                log.warning(
                    "the connection on which PostgreSQL notifies us is silent: reconnecting"
                )
                return

    def _received(self, pgconn: pq.abc.PGconn) -> None:
        while not self._answered and not pgconn.is_busy():
            self._answered = pgconn.get_result() is None
        while (message := pgconn.notifies()) is not None:
            # our own are in the buffer already
            if self._sender is None or message.be_pid != self._sender.pid:
                self._wakeups.add(message.extra.decode().split("\n"))

    # ------------------------------------------------------------------------------------- closing

    async def close(self) -> None:
        """Send what is unsent, and disconnect."""
        if self._send_later is not None:
            await asyncio.wait([self._send_later], timeout=SEND_TIMEOUT_S)
        await _end(self._listener)
        await _end(self._send_later)
        # a loop that ends has cancelled the task; what it had to send is still worth sending
        if self._unsent:
            with suppress(TimeoutError):
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await self._send_unsent()
        if self._sender is not None:
            await self._sender.wait_free(SEND_TIMEOUT_S)
            await self._sender.close()


async def _end(task: asyncio.Task[Any] | None) -> None:
    if task is not None and not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
