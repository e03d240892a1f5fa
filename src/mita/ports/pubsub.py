"""Subscriptions to events: a bounded buffer of what was published and not read yet."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from mita.errors import StoreError
from mita.model.time import SECOND, Wait

EVERY = "*"  # in the place of a queue's name: all there are
BUFFERED_EVENTS = 10_000  # events that wait to be read
# how long somebody who listens is believed to, until he says so again
SUBSCRIPTION_RETENTION: Wait = 15 * SECOND
MESSAGE_RETENTION: Wait = 10 * SECOND  # how long a store that has to keep what is told keeps it
MESSAGES_KEPT = 1000  # and how many batches
POLL_EVERY_S = 1.0  # seconds between two looks at such a store when nobody rings
RETRY_AFTER_S = 0.5  # seconds before a store that is away is tried again


class EventMessage(Struct, frozen=True, array_like=True):
    """Events of one queue, packed. Stores pass them on and never read them."""

    queue: str
    count: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    events: bytes


def read_told(rows: Iterable[Sequence[Any]]) -> list[EventMessage]:
    """Return the messages that a store kept, without those that cannot be read: events may be
    lost."""
    told = []
    for row in rows:
        with suppress(msgspec.MsgspecError, ValueError, RecursionError):
            told.append(msgspec.convert(row, EventMessage))
    return told


class Delivery(Struct, frozen=True):
    """What was published since the last delivery. `missed` events were lost before it; `cut`: an
    unknown number."""

    told: list[EventMessage]
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
        self._told: deque[EventMessage] = deque()
        self._waiting = 0
        self._missed = 0
        self._cut = False
        self._news = asyncio.Event()
        self.closed = False

    def put(self, told: Iterable[EventMessage]) -> None:
        """Add messages. It runs on the event loop of the subscriber."""
        for one in told:
            if self.queue in (None, one.queue):
                self._told.append(one)
                self._waiting += one.count
        while self._waiting > BUFFERED_EVENTS and len(self._told) > 1:
            lost = self._told.popleft()
            self._waiting -= lost.count
            self._missed += lost.count
        if self._told:
            self._news.set()

    def cut(self) -> None:
        """Note that messages may have been lost."""
        self._cut = True
        self._news.set()

    async def hear(self) -> Delivery | None:
        """Wait for the next delivery. Returns None once the subscription is closed."""
        await self._news.wait()
        if self.closed:
            return None
        self._news.clear()
        heard = Delivery(list(self._told), self._missed, self._cut)
        self._told.clear()
        self._waiting, self._missed, self._cut = 0, 0, False
        return heard

    async def close(self) -> None:
        """End the subscription."""
        if not self.closed:
            self.closed = True
            self._news.set()
            await self._close(self)


class PolledFeed(Struct, frozen=True):
    """How a subscription follows a store that keeps messages: `renew` extends the subscription,
    `news` returns new messages, `nap` sleeps until a notification; it returns True if notifications
    may have been lost."""

    renew: Callable[[], Awaitable[None]]
    news: Callable[[], Awaitable[Sequence[EventMessage]]]
    nap: Callable[[float], Awaitable[bool]]


async def poll_into(ear: Subscription, trail: PolledFeed) -> None:
    """Add new messages to a subscription while it is open. If a poll was too late, because the
    store or this process was away, messages were lost, and the subscription is told so."""
    renewed = looked = time.monotonic()
    while True:
        try:
            if time.monotonic() - renewed > SUBSCRIPTION_RETENTION / SECOND / 3:
                await trail.renew()
                renewed = time.monotonic()
            news = await trail.news()
        except StoreError:
            ear.cut()
            await asyncio.sleep(RETRY_AFTER_S)
            renewed = 0.0
            continue
        if time.monotonic() - looked > MESSAGE_RETENTION / SECOND:
            ear.cut()
        looked = time.monotonic()
        ear.put(news)
        if await trail.nap(POLL_EVERY_S):
            ear.cut()
            renewed = 0.0  # a server that was away may have forgotten that we listen


async def stop(task: asyncio.Task[None]) -> None:
    """Cancel a feeding task and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
