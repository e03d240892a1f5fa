"""Telling what happens: plain messages, one subject for each queue, of which the server keeps
nothing.

Whether anybody listens is a question that those who do answer; where nobody does, the server itself
says so at once."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from mita.errors import StoreError
from mita.ports.pubsub import EVERY, EventMessage, Subscription

from .context import Context
from .messages import Out, size, too_big

_pack = msgspec.msgpack.Encoder().encode
_read = msgspec.msgpack.Decoder(EventMessage).decode
_HERE = b"+"
PATIENCE = 1.0  # seconds


async def publish(context: Context, told: Sequence[EventMessage]) -> None:
    await context.wire.ready()
    for one in told:
        message = Out(context.subjects.told(one.queue), _pack(one))
        if size(message) > context.wire.max_payload:
            raise too_big(message, context.wire.max_payload)  # the server would end the connection
        context.wire.say(message.subject, message.body)
    await context.wire.flush_now()


async def subscribed_queues(context: Context) -> frozenset[str]:
    """Who answers first speaks for all: a queue that nobody listens to is dropped by the server.
    One who listens and is too busy to say so is there all the same."""
    try:
        async with asyncio.timeout(PATIENCE):
            [answer] = await context.wire.ask([Out(context.subjects.ears, b"")])
    except TimeoutError:
        return frozenset([EVERY])
    return frozenset([EVERY]) if answer == _HERE else frozenset()


async def _settled(context: Context) -> None:
    """What we have said so far is known to the server: it reads one connection in order, and the
    answer to a question that comes behind says so. (The driver's own ping overtakes what waits to
    be sent.)"""
    await subscribed_queues(context)


class Listener:
    """Feeds an ear, and answers that there is one. The driver subscribes again after a
    reconnect."""

    def __init__(self, context: Context, ear: Subscription) -> None:
        self._context, self._ear = context, ear
        self._wire, self._subjects = context.wire, context.subjects
        self._subscriptions: list[Any] = []

    async def start(self) -> None:
        self._subscriptions.append(
            await self._wire.hear(self._subjects.told(self._ear.queue), self._hear)
        )
        self._subscriptions.append(await self._wire.hear(self._subjects.ears, self._answer))
        self._wire.reconnected.append(self._ear.cut)
        await _settled(self._context)

    async def stop(self) -> None:
        if self._ear.cut in self._wire.reconnected:
            self._wire.reconnected.remove(self._ear.cut)
        for subscription in self._subscriptions:
            await self._wire.hush(subscription)
        with suppress(StoreError):
            await _settled(self._context)

    def _hear(self, _: bytes, __: bytes, data: bytes, ___: bytes | None) -> None:
        with suppress(msgspec.MsgspecError):  # whoever else publishes there
            self._ear.put([_read(data)])

    def _answer(self, _: bytes, reply: bytes, __: bytes, ___: bytes | None) -> None:
        if reply:
            self._wire.say(reply, _HERE)
            self._wire.flush_soon()
