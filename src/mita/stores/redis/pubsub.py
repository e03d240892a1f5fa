"""Telling what happens: one channel for each queue, heard on a connection of its own."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import msgspec
from redis.asyncio.connection import AbstractConnection

from mita.errors import StoreError
from mita.model.time import SECOND
from mita.ports.ids import new_id
from mita.ports.pubsub import EVERY, SUBSCRIPTION_RETENTION, EventMessage, Subscription, stop
from mita.ports.store import SILENCE

from .context import Room
from .errors import DRIVER_ERRORS
from .link import BACKOFF, SILENCES

log = logging.getLogger("mita.store")
_pack = msgspec.msgpack.Encoder().encode
_read = msgspec.msgpack.Decoder(EventMessage).decode


async def publish(room: Room, told: Sequence[EventMessage]) -> None:
    if told:
        messages = [part for one in told for part in (room.keys.told + one.queue, _pack(one))]
        await room.shared("publish", *messages, again=False)


async def subscribed_queues(room: Room) -> frozenset[str]:
    """The name of a subscription ends in its id, which has no blank."""
    return frozenset(
        ear.decode("utf-8", "replace").rpartition(" ")[0]
        for ear in await room.shared("subscribed_queues", room.now())
    )


class Listener:
    """Feeds an ear: subscribes, says so in the store, and does both again when the connection was
    cut."""

    def __init__(
        self, room: Room, connect: Callable[[], AbstractConnection], ear: Subscription
    ) -> None:
        self._room, self._connect, self._ear = room, connect, ear
        self._name = f"{EVERY if ear.queue is None else ear.queue} {new_id()}"
        self._began = asyncio.Event()
        self._heard_at = 0.0

    async def start(self) -> None:
        """When this returns, whatever is told is heard."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._listen()), loop.create_task(self._renew())]
        try:
            await self._say_so()
            async with asyncio.timeout(SUBSCRIPTION_RETENTION / SECOND):
                await self._began.wait()
        except TimeoutError:
            await self.stop()
            raise StoreError("the server does not let us listen", transient=True) from None
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        for task in self._tasks:
            await stop(task)
        with suppress(StoreError):
            await self._room.shared("unsubscribe", self._name)

    async def _say_so(self) -> None:
        await self._room.shared("subscribe", self._room.now(), self._name, SUBSCRIPTION_RETENTION)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(SUBSCRIPTION_RETENTION / SECOND / 3)
            with suppress(StoreError):
                await self._say_so()

    async def _listen(self) -> None:
        failures = 0
        while True:
            try:
                async for told in self._messages():
                    failures = 0
                    self._ear.put([told])
            except (*DRIVER_ERRORS, StoreError):
                self._ear.cut()
                await asyncio.sleep(
                    BACKOFF[min(failures, len(BACKOFF) - 1)] * random.uniform(0.5, 1.0)
                )
                failures += 1

    async def _messages(self) -> AsyncIterator[EventMessage]:
        connection = self._connect()
        pinging: asyncio.Task[None] | None = None
        verb, queue = (
            ("PSUBSCRIBE", EVERY) if self._ear.queue is None else ("SUBSCRIBE", self._ear.queue)
        )
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            await connection.send_command(verb, self._room.keys.told + queue)
            await connection.read_response()
            if self._began.is_set():  # the server may have forgotten that we listen
                await self._say_so()
            self._began.set()
            pinging = asyncio.get_running_loop().create_task(self._ping(connection))
            while True:
                message = await connection.read_response(disable_decoding=True)
                self._heard_at = asyncio.get_running_loop().time()
                with suppress(msgspec.MsgspecError):  # whoever else publishes there
                    if message[0] != b"pong":
                        yield _read(message[-1])
        finally:
            if pinging is not None:
                pinging.cancel()
            with suppress(*DRIVER_ERRORS):
                await connection.disconnect(nowait=True)

    async def _ping(self, connection: AbstractConnection) -> None:
        """Cut a connection on which the server does not answer any more: whoever reads from it then
        connects again."""
        self._heard_at = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() < self._heard_at + SILENCES * SILENCE:
            with suppress(*DRIVER_ERRORS):
                await connection.send_command("PING")
            await asyncio.sleep(SILENCE)
        log.warning("the connection on which Redis tells of events is silent: connecting again")
        await connection.disconnect(nowait=True)
