"""Events for other processes: a few rows that are soon deleted, and a notification. None of this
waits for the disk."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from mita.errors import StoreError
from mita.ports.ids import new_id
from mita.ports.pubsub import (
    EVERY,
    RETAINED_MESSAGES,
    SUBSCRIPTION_RETENTION,
    EventMessage,
    PolledFeed,
    Subscription,
    poll_into,
    read_messages,
    stop,
)
from mita.ports.store import EVENTS

from .codec import is_text
from .context import SqliteContext
from .notify import SqliteNotifier
from .thread.connection_thread import ConnectionThread


def publish(context: SqliteContext, messages: Sequence[EventMessage]) -> None:
    """Store messages for the subscribers."""
    if not messages:
        return
    for one in messages:
        context.run("publish", at=context.now, queue=one.queue, count=one.count, events=one.events)
    context.run("publish_trim", most=RETAINED_MESSAGES)
    context.topics.add(EVENTS)


def subscribed_queues(context: SqliteContext) -> frozenset[str]:
    """The queues that have a subscriber; `EVERY` if one has subscribed to all queues."""
    rows = context.rows("subscribed_queues", now=context.now)
    return frozenset(row[0] for row in rows if is_text(row))


def _renew(context: SqliteContext, id: str, queue: str) -> int:
    """Add or renew a subscription. Returns the number of the newest message."""
    until = context.now + SUBSCRIPTION_RETENTION
    context.run("subscribe", id=id, queue=queue, until=until)
    return int(context.value("subscribe_last"))


def _end(context: SqliteContext, id: str) -> None:
    context.run("subscribe_end", id=id)


class _Reader:
    """Reads the messages after the one with number `seq`."""

    def __init__(self, seq: int) -> None:
        self._seq = seq

    def news(self, context: SqliteContext) -> list[EventMessage]:
        rows = context.rows("subscribe_since", seq=self._seq)
        if rows:
            self._seq = rows[-1][0]
        return read_messages(row[1:] for row in rows)


class Subscriptions:
    """The open subscriptions of one store. Each polls the messages in the file, with a task and a
    notifier of its own."""

    def __init__(self, path: Path, writer: ConnectionThread, reader: ConnectionThread) -> None:
        self._path, self._writer, self._reader = path, writer, reader
        self._open: set[Subscription] = set()

    async def subscribe(self, queue: str | None) -> Subscription:
        """Receive what is published from now on, in one queue or in all (None)."""
        name = (new_id(), EVERY if queue is None else queue)

        async def renew() -> None:
            await self._writer.call(_renew, name, durable=False)

        async def close(subscription: Subscription) -> None:
            self._open.discard(subscription)
            await stop(polling)
            notifier.close()
            with suppress(StoreError):
                await self._writer.call(_end, name[:1], durable=False)

        async def nap(seconds: float) -> bool:
            await notifier.wait((), seconds)
            return False

        messages = _Reader(await self._writer.call(_renew, name, durable=False))
        notifier = SqliteNotifier(self._path)
        subscription = Subscription(queue, close)
        feed = PolledFeed(renew, lambda: self._reader.call(messages.news), nap)
        polling = asyncio.get_running_loop().create_task(poll_into(subscription, feed))
        self._open.add(subscription)
        return subscription

    async def close(self) -> None:
        """Close all subscriptions."""
        for subscription in list(self._open):
            await subscription.close()


class HasSubscriptions(Protocol):
    """A store with subscriptions."""

    @property
    def subscriptions(self) -> Subscriptions: ...


async def subscribe(store: HasSubscriptions, queue: str | None) -> Subscription:
    """Receive the events of a queue, or of all queues (None)."""
    return await store.subscriptions.subscribe(queue)
