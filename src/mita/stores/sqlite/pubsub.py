"""Telling what happens: a few rows that are soon forgotten, and a ring. None of it waits for the
disk."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mita.errors import StoreError
from mita.ports.ids import new_id
from mita.ports.pubsub import (
    EVERY,
    MESSAGE_RETENTION,
    MESSAGES_KEPT,
    SUBSCRIPTION_RETENTION,
    EventMessage,
    PolledFeed,
    Subscription,
    poll_into,
    read_told,
    stop,
)
from mita.ports.store import TOLD

from .context import Tx, is_text
from .line import Line
from .notify import Notifier


def publish(tx: Tx, told: Sequence[EventMessage]) -> None:
    if not told:
        return
    for one in told:
        tx.run("publish", at=tx.now, queue=one.queue, count=one.count, events=one.events)
    tx.run("messages_trim", most=MESSAGES_KEPT)
    tx.topics.add(TOLD)


def subscribed_queues(tx: Tx) -> frozenset[str]:
    return frozenset(row[0] for row in tx.rows("subscribed_queues", now=tx.now) if is_text(row))


def _renew(tx: Tx, id: str, queue: str) -> int:
    """Say that somebody listens; where he begins."""
    tx.run("subscribe", id=id, queue=queue, until=tx.now + SUBSCRIPTION_RETENTION)
    return int(tx.one("messages_last"))


def _unsubscribe(tx: Tx, id: str) -> None:
    tx.run("unsubscribe", id=id)


def forget(tx: Tx) -> None:
    """What nobody needs any more."""
    tx.run("messages_forget", before=tx.now - MESSAGE_RETENTION)
    tx.run("forget_subscriptions", now=tx.now)


class Follower:
    """Goes through what was told, from one place on."""

    def __init__(self, seq: int) -> None:
        self._seq = seq

    def news(self, tx: Tx) -> list[EventMessage]:
        rows = tx.rows("messages_since", seq=self._seq)
        if rows:
            self._seq = rows[-1][0]
        return read_told(row[1:] for row in rows)


class Subscriptions:
    """The open subscriptions of one store. Each follows the messages in the file with a task and a
    notifier of its own."""

    def __init__(self, path: Path, writer: Line, reader: Line) -> None:
        self._path, self._writer, self._reader = path, writer, reader
        self._open: set[Subscription] = set()

    async def subscribe(self, queue: str | None) -> Subscription:
        """Receive what is published from now on, in one queue or in all (None)."""
        id, named = new_id(), EVERY if queue is None else queue

        async def renew() -> None:
            await self._writer.do(lambda tx: _renew(tx, id, named), durable=False)

        async def close(subscription: Subscription) -> None:
            self._open.discard(subscription)
            await stop(following)
            notifier.close()
            with suppress(StoreError):
                await self._writer.do(lambda tx: _unsubscribe(tx, id), durable=False)

        async def nap(seconds: float) -> bool:
            await notifier.wait((), seconds)
            return False

        follower = Follower(await self._writer.do(lambda tx: _renew(tx, id, named), durable=False))
        notifier = Notifier(self._path)
        subscription = Subscription(queue, close)
        feed = PolledFeed(renew, lambda: self._reader.do(follower.news), nap)
        following = asyncio.get_running_loop().create_task(poll_into(subscription, feed))
        self._open.add(subscription)
        return subscription

    async def close(self) -> None:
        for subscription in list(self._open):
            await subscription.close()
