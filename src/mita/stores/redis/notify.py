"""Waking sleepers: one channel for the namespace, heard on a connection of its own."""

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import AbstractConnection

from mita.ports.store import SILENCE
from mita.stores.shared.wakeups import ANY, WakeupBuffer

from .errors import DRIVER_ERRORS
from .link import BACKOFF, SILENCES
from .wire import Line

log = logging.getLogger("mita.store")
LONGEST_START = 1.0  # seconds


class Notifier:
    """Begins to listen with the first `wait`, and goes on until it is closed."""

    def __init__(self, channel: str, connect: Callable[[], AbstractConnection]) -> None:
        self._channel = channel
        self._connect = connect
        self.silence = SILENCE
        self._heard_at = 0.0
        self._hearing = WakeupBuffer()
        self._listening = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        deadline = asyncio.get_running_loop().time() + timeout
        if self._task is None:
            await self._begin()
        return await self._hearing.wait(queues, deadline - asyncio.get_running_loop().time())

    async def _begin(self) -> None:
        """Whoever waits for the first time waits for the connection too, but not for a server that
        is away."""
        self._task = asyncio.create_task(self._listen())
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_START):
                await self._listening.wait()

    async def _listen(self) -> None:
        failures = 0
        while True:
            with suppress(*DRIVER_ERRORS, TimeoutError):
                await self._listen_once()
                failures = 0
            await asyncio.sleep(BACKOFF[min(failures, len(BACKOFF) - 1)] * random.uniform(0.5, 1.0))
            failures += 1

    async def _listen_once(self) -> None:
        """Until the connection is cut; raises if there was none."""
        connection, cut = self._connect(), asyncio.Event()
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            line = Line(connection, lambda _: cut.set(), self._hear)
            async with asyncio.timeout(SILENCES * self.silence):
                await line.ask(("SUBSCRIBE", self._channel))
            self._listening.set()
            self._hearing.hear({ANY})  # while nobody listened, anything may have rung
            await self._until_silent(line, cut)
        finally:
            with suppress(*DRIVER_ERRORS):
                await connection.disconnect(nowait=True)

    async def _until_silent(self, line: Line, cut: asyncio.Event) -> None:
        """Until the connection is cut, or the server does not answer on it any more."""
        loop = asyncio.get_running_loop()
        self._heard_at = loop.time()
        while loop.time() < self._heard_at + SILENCES * self.silence:
            line.send(("PING",))
            with suppress(TimeoutError):
                async with asyncio.timeout(self.silence):
                    await cut.wait()
            if cut.is_set():
                return
        log.warning("the connection on which Redis notifies us is silent: connecting again")

    def _hear(self, message: list[Any] | Exception) -> None:
        """The reader of the connection calls this itself: a task between would be one more step to
        a job's start. A server that is still loading its data answers a PING with an error, which
        shows that it is alive."""
        self._heard_at = asyncio.get_running_loop().time()
        if isinstance(message, list) and message[0] != b"pong":
            self._hearing.hear(message[2].decode().split("\n"))

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
