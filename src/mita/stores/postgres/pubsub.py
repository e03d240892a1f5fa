"""Events for other processes: rows that are deleted soon, and a notification. No commit here waits
for the disk.

Messages are in the table `_told`, subscriptions in `_ear`. Both have their names from version 0.1,
whose workers may run beside this version during an upgrade, so the names stay."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

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
from mita.stores.shared.wakeups import ANY

from .connection import SerialConnection
from .context import PostgresContext, RoundTrip, RoundTrips, StoreState, query
from .notify import PostgresNotifier
from .server.arrays import numbers

LATE_ROWS = 200  # a transaction that began early may add its row this many rows late


def publish(context: PostgresContext, messages: Sequence[EventMessage]) -> RoundTrips[None]:
    """Store messages for the subscribers and notify them."""
    if not messages:
        return
    rows = [
        query("publish", queue=one.queue, count=one.count, events=one.events) for one in messages
    ]
    yield RoundTrip(*rows, query("publish_trim", most=RETAINED_MESSAGES), last=True, synced=False)
    context.topics.add(EVENTS)


def subscribed_queues(_: PostgresContext) -> RoundTrips[frozenset[str]]:
    """The queues that have subscribers."""
    [rows] = yield RoundTrip(query("subscribed_queues"), last=True)
    return frozenset(queue for (queue,) in rows)


def renew(_: PostgresContext, id: str, queue: str) -> RoundTrips[int]:
    """Store or renew a subscription. Returns the number of the newest message."""
    answers = yield RoundTrip(
        query("subscribe", id=id, queue=queue, keep=SUBSCRIPTION_RETENTION),
        query("subscribe_last"),
        last=True,
        synced=False,
    )
    return int(answers[1][0][0])


def unsubscribe(_: PostgresContext, id: str) -> RoundTrips[None]:
    """Remove a subscription."""
    yield RoundTrip(query("subscribe_end", id=id), last=True, synced=False)


class MessageReader:
    """Reads the messages after a given number. Numbers are given out before the commit, so it also
    looks back for late ones."""

    def __init__(self, seq: int) -> None:
        self._first = seq
        self._seen: deque[int] = deque(maxlen=LATE_ROWS)

    def restarted(self, last: int) -> bool:
        """Whether the server has crashed: the table is not in its log, so the messages are gone and
        the numbers begin anew."""
        if last >= max(self._seen, default=self._first):
            return False
        self._first = last
        self._seen.clear()
        return True

    def news(self, _: PostgresContext) -> RoundTrips[list[EventMessage]]:
        """The messages that were not read yet."""
        newest = max(self._seen, default=self._first)
        floor = max(self._first, newest - LATE_ROWS)
        seen = [seq for seq in self._seen if seq > floor]
        [rows] = yield RoundTrip(query("subscribe_since", seq=floor, seen=numbers(seen)), last=True)
        self._seen.extend(row[0] for row in rows)
        return read_messages(row[1:] for row in rows)


class PostgresSubscriptions:
    """The open subscriptions of one store. `short` renews them, `read` reads the messages."""

    def __init__(self, state: StoreState, short: SerialConnection, read: SerialConnection) -> None:
        self._state, self._short, self._read = state, short, read
        self._open: set[Subscription] = set()

    async def subscribe(self, queue: str | None) -> Subscription:
        """Subscribe to the events of a queue, or of all. Each subscription has a notifier of its
        own, which tells when to read."""
        id, named = new_id(), EVERY if queue is None else queue
        notifier = PostgresNotifier(self._state)
        await notifier.wait((), 0.0)  # begins to listen

        async def stored() -> int:
            return await self._short.run(lambda _: renew(_, id, named), repeatable=True)

        reader = MessageReader(await stored())

        async def renew_stored() -> None:
            if reader.restarted(await stored()):
                subscription.cut()

        async def close(closed: Subscription) -> None:
            self._open.discard(closed)
            await stop(polling)
            await notifier.close()
            with suppress(StoreError):
                await self._short.run(lambda _: unsubscribe(_, id), repeatable=True)

        async def nap(seconds: float) -> bool:
            return ANY in await notifier.wait((), seconds)

        subscription = Subscription(queue, close)
        feed = PolledFeed(renew_stored, lambda: self._read.run(reader.news, repeatable=True), nap)
        polling = asyncio.get_running_loop().create_task(poll_into(subscription, feed))
        self._open.add(subscription)
        return subscription

    async def close(self) -> None:
        """Close all subscriptions."""
        for subscription in list(self._open):
            await subscription.close()
