"""Events for other processes: one channel for each queue, read on a connection of its own."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import msgspec
from redis.asyncio.connection import AbstractConnection

from mita.errors import StoreError
from mita.model.time import SECOND
from mita.ports.ids import new_id
from mita.ports.pubsub import EVERY, SUBSCRIPTION_RETENTION, EventMessage, Subscription, stop
from mita.ports.store import SILENCE_S

from .client.errors import DRIVER_ERRORS
from .client.servers import DEAD_AFTER_SILENCES
from .connection import reconnect_backoff
from .context import RedisContext

log = logging.getLogger("mita.store")
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(EventMessage).decode


async def publish(context: RedisContext, messages: Sequence[EventMessage]) -> None:
    """Send these messages to the subscribers, in this order."""
    if messages:
        channels = (context.keys.event_channel(message.queue) for message in messages)
        pairs = zip(channels, map(_pack, messages), strict=True)
        args = [part for pair in pairs for part in pair]
        await context.in_namespace("publish", *args, repeatable=False)


async def subscribed_queues(context: RedisContext) -> frozenset[str]:
    """The queues that have a subscriber, and `EVERY` if one subscribed to all."""
    names = await context.in_namespace("subscribed_queues", context.now())
    # a name is the queue, a blank and an id; an id has no blank
    return frozenset(name.decode("utf-8", "replace").rpartition(" ")[0] for name in names)


class RedisSubscriptions:
    """The open subscriptions of one store."""

    def __init__(self, context: RedisContext, connect: Callable[[], AbstractConnection]) -> None:
        self._context, self._connect = context, connect
        self._open: set[Subscription] = set()

    async def subscribe(self, queue: str | None) -> Subscription:
        """Receive the events of a queue, or of all queues."""

        async def close(closed: Subscription) -> None:
            self._open.discard(closed)
            await subscriber.stop()

        subscription = Subscription(queue, close)
        subscriber = RedisSubscriber(self._context, self._connect, subscription)
        await subscriber.start()
        self._open.add(subscription)
        return subscription

    async def close(self) -> None:
        """Close all subscriptions."""
        for subscription in list(self._open):
            await subscription.close()


class RedisSubscriber:
    """Fills one `Subscription`. It subscribes, registers the subscription in the store, and does
    both again when the connection was cut."""

    def __init__(
        self,
        context: RedisContext,
        connect: Callable[[], AbstractConnection],
        subscription: Subscription,
    ) -> None:
        self._context, self._connect, self._subscription = context, connect, subscription
        queue = EVERY if subscription.queue is None else subscription.queue
        self._name = f"{queue} {new_id()}"
        self._subscribed = asyncio.Event()
        self._last_message_at = 0.0

    async def start(self) -> None:
        """When this returns, every message that is published from now on is received."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._run()), loop.create_task(self._renew())]
        try:
            await self._register()
            async with asyncio.timeout(SUBSCRIPTION_RETENTION / SECOND):
                await self._subscribed.wait()
        except TimeoutError:
            await self.stop()
            raise StoreError(
                "the server did not confirm the subscription", transient=True
            ) from None
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Unsubscribe and disconnect."""
        for task in self._tasks:
            await stop(task)
        with suppress(StoreError):
            await self._context.in_namespace("subscribe_end", self._name)

    async def _register(self) -> None:
        args = (self._context.now(), self._name, SUBSCRIPTION_RETENTION)
        await self._context.in_namespace("subscribe", *args)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(SUBSCRIPTION_RETENTION / SECOND / 3)
            with suppress(StoreError):
                await self._register()

    async def _run(self) -> None:
        backoff = reconnect_backoff()
        while True:
            try:
                async for message in self._messages():
                    backoff.reset()
                    self._subscription.put([message])
            except (*DRIVER_ERRORS, StoreError):
                self._subscription.cut()
                await backoff.sleep()

    async def _messages(self) -> AsyncIterator[EventMessage]:
        connection = self._connect()
        pinging: asyncio.Task[None] | None = None
        queue = self._subscription.queue
        command = "PSUBSCRIBE" if queue is None else "SUBSCRIBE"
        channel = self._context.keys.event_channel(EVERY if queue is None else queue)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            await connection.send_command(command, channel)
            await connection.read_response()
            if self._subscribed.is_set():  # the server may have lost the registration
                await self._register()
            self._subscribed.set()
            pinging = asyncio.get_running_loop().create_task(self._ping(connection))
            while True:
                message = await connection.read_response(disable_decoding=True)
                self._last_message_at = asyncio.get_running_loop().time()
                with suppress(msgspec.MsgspecError):  # not published by Mita
                    if message[0] != b"pong":
                        yield _unpack(message[-1])
        finally:
            if pinging is not None:
                pinging.cancel()
            with suppress(*DRIVER_ERRORS):
                await connection.disconnect(nowait=True)

    async def _ping(self, connection: AbstractConnection) -> None:
        """Cut a connection on which the server stops answering, so that its reader reconnects."""
        loop = asyncio.get_running_loop()
        self._last_message_at = loop.time()
        while loop.time() < self._last_message_at + DEAD_AFTER_SILENCES * SILENCE_S:
            with suppress(*DRIVER_ERRORS):
                await connection.send_command("PING")
            await asyncio.sleep(SILENCE_S)
        log.warning("the connection for Redis events is silent: reconnecting")
        await connection.disconnect(nowait=True)
