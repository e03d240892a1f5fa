"""Telling what happens: a few rows that are soon forgotten, and a ring. None of it waits for the
disk."""

from collections.abc import Sequence

from mita.ports.pubsub import (
    MESSAGE_RETENTION,
    MESSAGES_KEPT,
    SUBSCRIPTION_RETENTION,
    EventMessage,
    read_told,
)
from mita.ports.store import TOLD

from .context import Tx, is_text


def publish(tx: Tx, told: Sequence[EventMessage]) -> None:
    for one in told:
        tx.run("publish", at=tx.now, queue=one.queue, count=one.count, events=one.events)
    tx.run("messages_trim", most=MESSAGES_KEPT)
    tx.topics.add(TOLD)


def subscribed_queues(tx: Tx) -> frozenset[str]:
    return frozenset(row[0] for row in tx.rows("subscribed_queues", now=tx.now) if is_text(row))


def subscribe(tx: Tx, id: str, queue: str) -> int:
    """Say that somebody listens; where he begins."""
    tx.run("subscribe", id=id, queue=queue, until=tx.now + SUBSCRIPTION_RETENTION)
    return int(tx.one("messages_last"))


def unsubscribe(tx: Tx, id: str) -> None:
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
