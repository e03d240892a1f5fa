"""Listening to what is told: an ear holds what its owner has not read yet, and never grows beyond
bounds."""

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
MOST = 10_000  # events that wait to be read
# how long somebody who listens is believed to, until he says so again
SUBSCRIPTION_RETENTION: Wait = 15 * SECOND
MESSAGE_RETENTION: Wait = 10 * SECOND  # how long a store that has to keep what is told keeps it
MESSAGES_KEPT = 1000  # and how many batches
LOOK_EVERY = 1.0  # seconds between two looks at such a store when nobody rings
RETRY = 0.5  # seconds before a store that is away is tried again


class EventMessage(Struct, frozen=True, array_like=True):
    """So many events of one queue, packed. Stores pass them on and never look inside."""

    queue: str
    count: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    events: bytes


def read_told(rows: Iterable[Sequence[Any]]) -> list[EventMessage]:
    """Batches as a store kept them, without those that cannot be read: what is told may be lost."""
    told = []
    for row in rows:
        with suppress(msgspec.MsgspecError, ValueError, RecursionError):
            told.append(msgspec.convert(row, EventMessage))
    return told


class Delivery(Struct, frozen=True):
    """What was told since the last time. Before it so many events were `missed`; `cut`: nobody
    knows how many."""

    told: list[EventMessage]
    missed: int = 0
    cut: bool = False


class Subscription:
    """`queue` None hears all. A reader who is too slow loses the oldest, and is told. `close` is
    called once."""

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
        """On the loop of whoever listens."""
        for one in told:
            if self.queue in (None, one.queue):
                self._told.append(one)
                self._waiting += one.count
        while self._waiting > MOST and len(self._told) > 1:
            lost = self._told.popleft()
            self._waiting -= lost.count
            self._missed += lost.count
        if self._told:
            self._news.set()

    def cut(self) -> None:
        """Something may have been told that nobody here could hear."""
        self._cut = True
        self._news.set()

    async def hear(self) -> Delivery | None:
        """Waits for something; None once it is closed."""
        await self._news.wait()
        if self.closed:
            return None
        self._news.clear()
        heard = Delivery(list(self._told), self._missed, self._cut)
        self._told.clear()
        self._waiting, self._missed, self._cut = 0, 0, False
        return heard

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._news.set()
            await self._close(self)


class PolledFeed(Struct, frozen=True):
    """How an ear follows what a store keeps: `renew` says that somebody listens, `news` gives what
    is new, `nap` sleeps until somebody rings; True: some may have rung unheard."""

    renew: Callable[[], Awaitable[None]]
    news: Callable[[], Awaitable[Sequence[EventMessage]]]
    nap: Callable[[float], Awaitable[bool]]


async def poll_into(ear: Subscription, trail: PolledFeed) -> None:
    """Feed an ear for as long as it is open. Whoever looks too seldom, because the store or he was
    away, has missed some."""
    renewed = looked = time.monotonic()
    while True:
        try:
            if time.monotonic() - renewed > SUBSCRIPTION_RETENTION / SECOND / 3:
                await trail.renew()
                renewed = time.monotonic()
            news = await trail.news()
        except StoreError:
            ear.cut()
            await asyncio.sleep(RETRY)
            renewed = 0.0
            continue
        if time.monotonic() - looked > MESSAGE_RETENTION / SECOND:
            ear.cut()
        looked = time.monotonic()
        ear.put(news)
        if await trail.nap(LOOK_EVERY):
            ear.cut()
            renewed = 0.0  # a server that was away may have forgotten that we listen


async def stop(task: asyncio.Task[None]) -> None:
    """End a feeder, whatever it is waiting for."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
