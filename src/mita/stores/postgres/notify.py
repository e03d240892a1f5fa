"""Waking sleepers: LISTEN on a connection of its own, NOTIFY on another, after the commit and never
within it.

A NOTIFY inside a transaction makes its commit queue up behind all other commits that notify. Ours
are sent afterwards, at most one every few milliseconds, with all that happened meanwhile in one.
Somebody sleeps until it is heard: so both ends go straight to the driver's lowest floor, and no
task has to be started or woken on the way."""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import pq

from mita.errors import MitaError
from mita.stores.shared.wakeups import ANY, WakeupBuffer

from .connection import Connection, connect
from .line import Place

SILENCES = 2
LONGEST = 7900  # bytes; PostgreSQL allows 8000
QUIET = 0.005  # seconds between two rings
PATIENCE = 2.0  # seconds that a ring may take
RETRY = 1.0  # seconds before listening is tried again
# A ring that is lost in a crash costs a second's sleep at most: it need not wait for the disk.
_SETTINGS = {"synchronous_commit": "off"}
log = logging.getLogger("mita.store")
_TROUBLE = (psycopg.Error, MitaError, OSError)


class Notifier:
    """Rings for others, and hears the others ring."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._channel = f"mita_{place.sql.namespace}"
        self._hearing = WakeupBuffer()
        self._unsent: set[str] = set()
        self._quiet_until = 0.0
        self._sender: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._voice: Voice | None = None
        self._answered = True  # whether the listening connection owes us no answer

    # ------------------------------------------------------------ ringing

    def ring(self, topics: set[str]) -> None:
        """Tell every listener, our own first."""
        if self._listener is not None:
            self._hearing.hear(topics)
        self._unsent |= topics
        loop = asyncio.get_running_loop()
        if self._voice is not None and self._voice.is_free and loop.time() >= self._quiet_until:
            with suppress(*_TROUBLE):  # whoever was not woken looks by himself, once a second
                self._say(self._voice)
        elif self._sender is None or self._sender.done():
            self._sender = loop.create_task(self._send())

    async def _send(self) -> None:
        """What could not be said at once: the last ring was a moment ago, or there is no
        connection."""
        while self._unsent:
            await asyncio.sleep(self._quiet_until - asyncio.get_running_loop().time())
            try:
                voice = await self._free_voice()
                if self._unsent:
                    self._say(voice)
            except _TROUBLE:
                self._unsent.clear()

    def _say(self, voice: "Voice") -> None:
        topics, self._unsent = self._unsent, set()
        self._quiet_until = asyncio.get_running_loop().time() + QUIET
        message = "\n".join(sorted(topics)).encode()
        voice.say(self._channel, message if len(message) <= LONGEST else ANY.encode())

    async def _free_voice(self) -> "Voice":
        if self._voice is not None and not await self._voice.becomes_free(PATIENCE):
            await self._voice.close()
            self._voice = None
        if self._voice is None:
            self._voice = Voice(await connect(self._place.told, _SETTINGS))
        return self._voice

    # ------------------------------------------------------------ hearing

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        if self._listener is None:
            self._listener = asyncio.get_running_loop().create_task(self._listen())
            with suppress(TimeoutError):
                async with asyncio.timeout(max(timeout, 1.0)):
                    await self._listening.wait()
            # what happened before we listened was not heard: look once
            return frozenset(queues or {ANY})
        return await self._hearing.wait(queues, timeout)

    async def _listen(self) -> None:
        """Until the store is closed; whenever the connection is lost, again."""
        while True:
            with suppress(*_TROUBLE):
                await self._listen_once()
            await asyncio.sleep(RETRY)

    async def _listen_once(self) -> None:
        async with await connect(
            self._place.told, {"application_name": "mita listen"}
        ) as connection:
            await connection.execute(f'listen "{self._channel}"'.encode(), prepare=False)
            if self._listening.is_set():
                self._hearing.hear({ANY})  # rings were missed while nobody listened
            self._listening.set()
            with Reading(connection, lambda: self._heard(connection.pgconn)) as reading:
                await self._until_silent(connection.pgconn, reading)

    async def _until_silent(self, pgconn: pq.abc.PGconn, reading: "Reading") -> None:
        """Until the connection is lost, or the server does not answer on it any more."""
        while True:
            self._answered = False
            pgconn.send_query(b"select 1")
            pgconn.flush()  # a few bytes: there is room for them
            await asyncio.wait([reading.lost], timeout=SILENCES * self._place.silence)
            if reading.lost.done():
                return
            if not self._answered:
                log.warning(
                    "the connection on which PostgreSQL notifies us is silent: connecting again"
                )
                return

    def _heard(self, pgconn: pq.abc.PGconn) -> None:
        while not self._answered and not pgconn.is_busy():
            self._answered = pgconn.get_result() is None
        while (note := pgconn.notifies()) is not None:
            # our own we have heard already
            if self._voice is None or note.be_pid != self._voice.pid:
                self._hearing.hear(note.extra.decode().split("\n"))

    # ------------------------------------------------------------ closing

    async def close(self) -> None:
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=PATIENCE)
        await _end(self._listener)
        await _end(self._sender)
        # a loop that ends cancels the sender, and what was to be said is still worth saying
        if self._unsent:
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._send()
        if self._voice is not None:
            await self._voice.becomes_free(PATIENCE)
            await self._voice.close()


async def _end(task: asyncio.Task[Any] | None) -> None:
    if task is not None and not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


# ---------------------------------------------------------------- the driver's lowest floor


class Reading:
    """Calls whenever something has come in on a connection that nobody else reads, until it is
    lost. A context."""

    def __init__(self, connection: Connection, come_in: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._pgconn, self._fd, self._come_in = connection.pgconn, connection.fileno(), come_in
        self._reads = False
        self.lost: asyncio.Future[None] = self._loop.create_future()

    def __enter__(self) -> "Reading":
        self._reads = True
        self._loop.add_reader(self._fd, self._read)
        self._read()  # what came while we were still connecting
        return self

    def __exit__(self, *ignored: object) -> None:
        # once: after that the number of the socket may be that of another connection
        if self._reads:
            self._reads = False
            self._loop.remove_reader(self._fd)
        # a task that waited for it and was cancelled has cancelled it as well
        if not self.lost.done():
            self.lost.set_result(None)

    def _read(self) -> None:
        try:
            self._pgconn.consume_input()
            self._come_in()
        except psycopg.Error:
            self.__exit__()


class Voice:
    """A connection on which notes are sent. Nobody waits for the answer, but the next is not sent
    before it has come."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._quoted = pq.Escaping(self._pgconn).escape_literal
        self._answered = asyncio.Event()
        self._answered.set()
        self._reading = Reading(connection, self._hear)
        self._reading.__enter__()
        self._reading.lost.add_done_callback(lambda _: self._answered.set())  # no answer will come
        self.pid = connection.info.backend_pid

    @property
    def is_free(self) -> bool:
        return self._answered.is_set() and not self._reading.lost.done()

    async def becomes_free(self, patience: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._answered.wait()
        return self.is_free

    def say(self, channel: str, message: bytes) -> None:
        self._answered.clear()
        try:
            self._pgconn.send_query(b'notify "%b", %b' % (channel.encode(), self._quoted(message)))
            # never more than one short message is under way: there is room for it
            self._pgconn.flush()
        except psycopg.Error:
            # libpq has closed the socket, and its number is soon that of another connection
            self._reading.__exit__()
            raise

    def _hear(self) -> None:
        """The answer says nothing: what matters is that it came."""
        while not self._answered.is_set() and not self._pgconn.is_busy():
            if self._pgconn.get_result() is None:
                self._answered.set()

    async def close(self) -> None:
        self._reading.__exit__()
        with suppress(psycopg.Error, OSError):
            await self._connection.close()
