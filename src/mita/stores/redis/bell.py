"""Waking sleepers: one channel for the namespace, heard on a connection of its own."""

import asyncio
import random
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import AbstractConnection

from mita.stores.shared.hearing import ANY, Hearing

from .errors import DRIVER_ERRORS
from .link import BACKOFF
from .wire import Line

LONGEST_START = 1.0  # seconds


class Bell:
    """Begins to listen with the first `wait`, and goes on until it is closed."""

    def __init__(self, channel: str, connect: Callable[[], AbstractConnection]) -> None:
        self._channel = channel
        self._connect = connect
        self._hearing = Hearing()
        self._listening = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        deadline = asyncio.get_running_loop().time() + timeout
        if self._task is None:
            await self._begin()
        return await self._hearing.wait(queues, deadline - asyncio.get_running_loop().time())

    async def _begin(self) -> None:
        """Whoever waits for the first time waits for the connection too, but not for a server that is away."""
        self._task = asyncio.create_task(self._listen())
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_START):
                await self._listening.wait()

    async def _listen(self) -> None:
        failures = 0
        while True:
            with suppress(*DRIVER_ERRORS):
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
            await line.ask(("SUBSCRIBE", self._channel))
            self._listening.set()
            self._hearing.hear({ANY})  # while nobody listened, anything may have rung
            await cut.wait()
        finally:
            with suppress(*DRIVER_ERRORS):
                await connection.disconnect(nowait=True)

    def _hear(self, message: list[Any]) -> None:
        """The reader of the connection calls this itself: a task between would be one more step to a job's start."""
        self._hearing.hear(message[2].decode().split("\n"))

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
