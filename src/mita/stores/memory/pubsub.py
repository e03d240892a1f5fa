"""Events for subscribers, on any event loop."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from mita.ports.pubsub import EVERY, EventMessage, Subscription

from .context import MemoryContext


def publish(context: MemoryContext, messages: Sequence[EventMessage]) -> None:
    """Pass messages on to every subscriber."""
    for subscription, loop in context.state.subscriptions.items():
        with suppress(RuntimeError):  # its event loop was closed, so no one can read them
            loop.call_soon_threadsafe(subscription.put, messages)


def subscribed_queues(context: MemoryContext) -> frozenset[str]:
    """The queues that have a subscriber; `EVERY` if one has subscribed to all queues."""
    subscriptions = context.state.subscriptions
    return frozenset(EVERY if one.queue is None else one.queue for one in subscriptions)


def add(
    context: MemoryContext, subscription: Subscription, loop: asyncio.AbstractEventLoop
) -> None:
    """Pass messages on to this subscription from now on."""
    context.state.subscriptions[subscription] = loop


def remove(context: MemoryContext, subscription: Subscription) -> None:
    """Pass no more messages on to this subscription."""
    context.state.subscriptions.pop(subscription, None)
