"""Wake-ups: one channel for the namespace, read on a connection of its own."""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import AbstractConnection

from mita.ports.store import SILENCE_S
from mita.stores.shared.wakeups import ANY, WakeupBuffer

from .client.errors import DRIVER_ERRORS
from .client.pipelined_socket import PipelinedSocket
from .client.servers import DEAD_AFTER_SILENCES
from .connection import reconnect_backoff

log = logging.getLogger("mita.store")
FIRST_SUBSCRIBE_TIMEOUT_S = 1.0


class RedisNotifier:
    """Receives the wake-ups of a namespace. It subscribes with the first `wait` and stays
    subscribed until it is closed."""

    def __init__(self, channel: str, connect: Callable[[], AbstractConnection]) -> None:
        self._channel = channel
        self._connect = connect
        self.silence = SILENCE_S
        self._last_message_at = 0.0
        self._buffer = WakeupBuffer()
        self._subscribed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        """Wait for a wake-up of one of these queues (None: of any). Returns the topics; empty after
        `timeout` seconds."""
        deadline = asyncio.get_running_loop().time() + timeout
        if self._task is None:
            await self._start()
        return await self._buffer.wait(queues, deadline - asyncio.get_running_loop().time())

    async def _start(self) -> None:
        """The first `wait` also waits for the subscription, but not for an unreachable server."""
        self._task = asyncio.create_task(self._run())
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_SUBSCRIBE_TIMEOUT_S):
                await self._subscribed.wait()

    async def _run(self) -> None:
        backoff = reconnect_backoff()
        while True:
            with suppress(*DRIVER_ERRORS, TimeoutError):
                await self._subscribe()
                backoff.reset()
            await backoff.sleep()

    async def _subscribe(self) -> None:
        """Subscribe, and return when the connection is cut. Raises if it cannot connect."""
        connection, cut = self._connect(), asyncio.Event()
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            socket = PipelinedSocket(connection, lambda _: cut.set(), self._receive)
            async with asyncio.timeout(DEAD_AFTER_SILENCES * self.silence):
                await socket.call(("SUBSCRIBE", self._channel))
            self._subscribed.set()
            self._buffer.add({ANY})  # any wake-up may have been missed before
            await self._until_silent(socket, cut)
        finally:
            with suppress(*DRIVER_ERRORS):
                await connection.disconnect(nowait=True)

    async def _until_silent(self, socket: PipelinedSocket, cut: asyncio.Event) -> None:
        """Return when the connection is cut, or when the server stops answering on it."""
        loop = asyncio.get_running_loop()
        self._last_message_at = loop.time()
        while loop.time() < self._last_message_at + DEAD_AFTER_SILENCES * self.silence:
            socket.send(("PING",))
            with suppress(TimeoutError):
                async with asyncio.timeout(self.silence):
                    await cut.wait()
            if cut.is_set():
                return
        log.warning("the connection for Redis wake-ups is silent: reconnecting")

    def _receive(self, message: list[Any] | Exception) -> None:
        """The socket calls this directly: a task in between would delay the start of a job. A
        server that is loading its data answers a PING with an error, which shows that it lives."""
        self._last_message_at = asyncio.get_running_loop().time()
        if isinstance(message, list) and message[0] != b"pong":
            self._buffer.add(message[2].decode().split("\n"))

    async def close(self) -> None:
        """Stop and disconnect."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
