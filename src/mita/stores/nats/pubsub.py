"""Events for other processes: plain messages, one subject for each queue. The server stores none.

Whether there is a subscriber is a question that subscribers answer. If there is none, the server
itself says so at once."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from mita.errors import StoreError
from mita.ports.pubsub import EVERY, EventMessage, Subscription

from .client.messages import OutMessage, size, too_big
from .context import NatsContext

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(EventMessage).decode
_YES = b"+"
SUBSCRIBER_TIMEOUT_S = 1.0


async def publish(context: NatsContext, messages: Sequence[EventMessage]) -> None:
    """Send these messages to the subscribers, in this order. Raises Rejected for a message that is
    larger than the server takes."""
    await context.wire.ready()
    for one in messages:
        message = OutMessage(context.subjects.events(one.queue), _pack(one))
        if size(message) > context.wire.max_payload:
            # The server would end the connection.
            raise too_big(message, context.wire.max_payload)
        context.wire.send_message(message.subject, message.body)
    await context.wire.flush_now()


async def subscribed_queues(context: NatsContext) -> frozenset[str]:
    """Returns `EVERY` if there is a subscriber, of any queue: the server itself drops events of
    queues without one. A subscriber that is too busy to answer counts."""
    try:
        async with asyncio.timeout(SUBSCRIBER_TIMEOUT_S):
            [answer] = await context.wire.request_all(
                [OutMessage(context.subjects.subscribers, b"")]
            )
    except TimeoutError:
        return frozenset([EVERY])
    return frozenset([EVERY]) if answer == _YES else frozenset()


async def _round_trip(context: NatsContext) -> None:
    """Wait until the server has received everything that was sent. It reads a connection in order,
    so the answer to a request that is sent now proves it. (The driver's own ping overtakes what
    waits to be sent.)"""
    await subscribed_queues(context)


class NatsSubscriptions:
    """The open subscriptions of one store."""

    def __init__(self) -> None:
        self._open: set[Subscription] = set()

    async def subscribe(self, context: NatsContext, queue: str | None) -> Subscription:
        """Receive the events of a queue, or of all queues."""

        async def close(closed: Subscription) -> None:
            self._open.discard(closed)
            await subscriber.stop()

        subscription = Subscription(queue, close)
        subscriber = NatsSubscriber(context, subscription)
        await subscriber.start()
        self._open.add(subscription)
        return subscription

    async def close(self) -> None:
        """Close all subscriptions."""
        for subscription in list(self._open):
            await subscription.close()


class NatsSubscriber:
    """Fills one `Subscription`, and answers that there is a subscriber. The driver subscribes again
    after a reconnect."""

    def __init__(self, context: NatsContext, subscription: Subscription) -> None:
        self._context, self._subscription = context, subscription
        self._wire, self._subjects = context.wire, context.subjects
        self._raw: list[Any] = []

    async def start(self) -> None:
        """Subscribe. When this returns, no later event is missed."""
        events = self._subjects.events(self._subscription.queue)
        self._raw.append(await self._wire.subscribe_raw(events, self._take))
        self._raw.append(await self._wire.subscribe_raw(self._subjects.subscribers, self._answer))
        self._wire.on_reconnect.append(self._subscription.cut)
        await _round_trip(self._context)

    async def stop(self) -> None:
        """Unsubscribe."""
        if self._subscription.cut in self._wire.on_reconnect:
            self._wire.on_reconnect.remove(self._subscription.cut)
        for subscription in self._raw:
            await self._wire.unsubscribe_raw(subscription)
        with suppress(StoreError):
            await _round_trip(self._context)

    def _take(self, _: bytes, __: bytes, data: bytes, ___: bytes | None) -> None:
        with suppress(msgspec.MsgspecError):  # published by another program
            self._subscription.put([_unpack(data)])

    def _answer(self, _: bytes, reply: bytes, __: bytes, ___: bytes | None) -> None:
        if reply:
            self._wire.send_message(reply, _YES)
            self._wire.flush_soon()
