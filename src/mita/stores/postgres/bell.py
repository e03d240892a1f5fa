"""Waking sleepers: LISTEN on a connection of its own, NOTIFY on another, after the commit and never within it.

A NOTIFY inside a transaction makes its commit queue up behind all other commits that notify. Ours are sent afterwards, at
most one every few milliseconds, with all that happened meanwhile in one.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any

import psycopg

from mita.errors import MitaError

from .connection import Connection, answered_within, connect
from .line import Place
from .steps import ask

ANY = "*"  # too many topics for one message, or some were missed: wake everybody
LONGEST = 7900  # bytes; PostgreSQL allows 8000
QUIET = 0.005  # seconds between two rings
PATIENCE = 2.0  # seconds that a ring may take
RETRY = 1.0  # seconds before listening is tried again
# A ring that is lost in a crash costs a second's sleep at most: it need not wait for the disk.
_SETTINGS = {"synchronous_commit": "off"}


class Bell:
    """Rings for others, and hears the others ring."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._channel = f"mita_{place.sql.namespace}"
        self._heard: set[str] = set()
        self._someone = asyncio.Event()
        self._unsent: set[str] = set()
        self._sender: asyncio.Task[None] | None = None
        self._listener: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._voice: Connection | None = None

    # ------------------------------------------------------------ ringing

    def ring(self, topics: set[str]) -> None:
        """Tell every listener, our own first."""
        if self._listener is not None:
            self._hear(topics)
        self._unsent |= topics
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        while self._unsent:
            topics, self._unsent = self._unsent, set()
            message = "\n".join(sorted(topics))
            message = message if len(message.encode()) <= LONGEST else ANY
            with suppress(psycopg.Error, MitaError, OSError):  # whoever was not woken looks by himself, once a second
                await self._notify(message)
            await asyncio.sleep(QUIET)

    async def _notify(self, message: str) -> None:
        if self._voice is None or self._voice.closed:
            self._voice = await connect(self._place.told, _SETTINGS)
        text, values = self._place.bound(ask("notify", channel=self._channel, topics=message))
        with answered_within(PATIENCE, self._voice):
            await self._voice.execute(text, values)

    # ------------------------------------------------------------ hearing

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        if self._listener is None:
            self._listener = asyncio.get_running_loop().create_task(self._listen())
            with suppress(TimeoutError):
                async with asyncio.timeout(max(timeout, 1.0)):
                    await self._listening.wait()
            return frozenset(queues or {ANY})  # what happened before we listened was not heard: look once
        deadline = asyncio.get_running_loop().time() + timeout
        while not (mine := self._mine(queues)):
            self._someone.clear()
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return frozenset()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._someone.wait()
        self._heard -= mine
        return frozenset(mine)

    def _mine(self, queues: Collection[str] | None) -> set[str]:
        if queues is None or ANY in self._heard:
            return set(self._heard)
        return {topic for topic in self._heard if topic in queues or not topic[0].isalnum()}

    def _hear(self, topics: Collection[str]) -> None:
        self._heard.update(topics)
        self._someone.set()

    async def _listen(self) -> None:
        """Until the store is closed; whenever the connection is lost, again."""
        while True:
            with suppress(psycopg.Error, MitaError, OSError):
                await self._listen_once()
            await asyncio.sleep(RETRY)

    async def _listen_once(self) -> None:
        async with await connect(self._place.told, {"application_name": "mita listen"}) as connection:
            await connection.execute(f'listen "{self._channel}"'.encode(), prepare=False)
            if self._listening.is_set():
                self._hear({ANY})  # rings were missed while nobody listened
            self._listening.set()
            async for note in connection.notifies():
                if self._voice is None or note.pid != self._voice.info.backend_pid:  # our own we have heard already
                    self._hear(note.payload.split("\n"))

    # ------------------------------------------------------------ closing

    async def close(self) -> None:
        if self._sender is not None:
            await asyncio.wait([self._sender], timeout=PATIENCE)
        await _end(self._listener)
        await _end(self._sender)
        if self._voice is not None:
            with suppress(psycopg.Error, OSError):
                await self._voice.close()


async def _end(task: asyncio.Task[Any] | None) -> None:
    if task is not None and not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
