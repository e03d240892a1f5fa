"""Events for other processes: what a store provides (`PubSub`), and the buffer of a subscriber."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Protocol

import msgspec
from msgspec import Meta, Struct

from mita.errors import StoreError
from mita.model.time import SECOND, Wait

EVERY = "*"  # in place of a queue's name: all queues
BUFFERED_EVENTS = 10_000  # events of one subscription that wait to be read
# how long a subscription lasts unless it is renewed
SUBSCRIPTION_RETENTION: Wait = 15 * SECOND
# how long a store keeps messages, and how many, if its subscribers have to poll for them
MESSAGE_RETENTION: Wait = 10 * SECOND
RETAINED_MESSAGES = 1000
POLL_EVERY_S = 1.0  # seconds between two polls without a notification
RETRY_AFTER_S = 0.5  # seconds before an unreachable store is tried again


class EventMessage(Struct, frozen=True, array_like=True):
    """Events of one queue, packed. Stores pass them on and never read them."""

    queue: str
    count: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    events: bytes


def read_messages(rows: Iterable[Sequence[Any]]) -> list[EventMessage]:
    """Return the messages that a store kept, without the unreadable ones: events may be lost."""
    messages = []
    for row in rows:
        with suppress(msgspec.MsgspecError, ValueError, RecursionError):
            messages.append(msgspec.convert(row, EventMessage))
    return messages


class Delivery(Struct, frozen=True):
    """What was published since the last delivery. `missed` events were lost before it; `cut`: an
    unknown number."""

    messages: list[EventMessage]
    missed: int = 0
    cut: bool = False


class Subscription:
    """A subscription to one queue, or to all (`queue` None). A reader that is too slow loses the
    oldest events, and the delivery says how many. `close` is called once."""

    def __init__(
        self, queue: str | None, close: Callable[["Subscription"], Awaitable[None]]
    ) -> None:
        self.queue = queue
        self._close = close
        self._messages: deque[EventMessage] = deque()
        self._waiting = 0
        self._missed = 0
        self._cut = False
        self._news = asyncio.Event()
        self.closed = False

    def put(self, messages: Iterable[EventMessage]) -> None:
        """Add messages. It runs on the event loop of the subscriber."""
        for one in messages:
            if self.queue in (None, one.queue):
                self._messages.append(one)
                self._waiting += one.count
        while self._waiting > BUFFERED_EVENTS and len(self._messages) > 1:
            lost = self._messages.popleft()
            self._waiting -= lost.count
            self._missed += lost.count
        if self._messages:
            self._news.set()

    def cut(self) -> None:
        """Note that messages may have been lost."""
        self._cut = True
        self._news.set()

    async def receive(self) -> Delivery | None:
        """Wait for the next delivery. Returns None once the subscription is closed."""
        await self._news.wait()
        if self.closed:
            return None
        self._news.clear()
        delivery = Delivery(list(self._messages), self._missed, self._cut)
        self._messages.clear()
        self._waiting, self._missed, self._cut = 0, 0, False
        return delivery

    async def close(self) -> None:
        """End the subscription."""
        if not self.closed:
            self.closed = True
            self._news.set()
            await self._close(self)


class PubSub(Protocol):
    """Events for other processes. Nothing depends on them: they may be lost. Without subscribers
    they cost nothing."""

    async def publish(self, messages: Sequence[EventMessage]) -> None:
        """Send these messages, in this order, to the current subscribers. Later subscribers do not
        get them."""

    async def subscribed_queues(self) -> frozenset[str]:
        """Return the queues that have subscribers; `EVERY` stands for a subscription to all. It is
        called often, so it is cheap. It may return too many queues, but never too few. A subscriber
        that died is forgotten after `SUBSCRIPTION_RETENTION`."""

    async def subscribe(self, queue: str | None) -> Subscription:
        """Subscribe to one queue, or to all (None): everything that is published after this returns
        is delivered. If the store was unreachable, the subscription continues by itself and says
        that messages may have been lost."""


class PolledFeed(Struct, frozen=True):
    """How a subscription follows a store that keeps messages: `renew` extends the subscription,
    `news` returns new messages, `nap` sleeps until a notification; it returns True if notifications
    may have been lost."""

    renew: Callable[[], Awaitable[None]]
    news: Callable[[], Awaitable[Sequence[EventMessage]]]
    nap: Callable[[float], Awaitable[bool]]


async def poll_into(subscription: Subscription, feed: PolledFeed) -> None:
    """Add new messages to a subscription while it is open. If a poll came too late, because the
    store was unreachable or this process was stopped, messages may be lost: the subscription is
    marked as cut."""
    renewed = looked = time.monotonic()
    while True:
        try:
            if time.monotonic() - renewed > SUBSCRIPTION_RETENTION / SECOND / 3:
                await feed.renew()
                renewed = time.monotonic()
            news = await feed.news()
        except StoreError:
            subscription.cut()
            await asyncio.sleep(RETRY_AFTER_S)
            renewed = 0.0
            continue
        if time.monotonic() - looked > MESSAGE_RETENTION / SECOND:
            subscription.cut()
        looked = time.monotonic()
        subscription.put(news)
        if await feed.nap(POLL_EVERY_S):
            subscription.cut()
            renewed = 0.0  # a server that was restarted may not know this subscription any more


async def stop(task: asyncio.Task[None]) -> None:
    """Cancel a feeding task and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
