"""Telling what happens: a few rows that are soon forgotten, and a ring. None of it waits for the
disk."""

from collections import deque
from collections.abc import Sequence

from mita.ports.pubsub import (
    MESSAGE_RETENTION,
    MESSAGES_KEPT,
    SUBSCRIPTION_RETENTION,
    EventMessage,
    read_told,
)
from mita.ports.store import TOLD

from .arrays import numbers
from .steps import Act, Ask, Step, Steps, ask

BEHIND = 200  # rows: so far a transaction that began early may come late


def publish(act: Act, told: Sequence[EventMessage]) -> Steps[None]:
    rows = [ask("publish", queue=one.queue, count=one.count, events=one.events) for one in told]
    yield Step(*rows, ask("messages_trim", most=MESSAGES_KEPT), last=True, synced=False)
    act.topics.add(TOLD)


def subscribed_queues(_: Act) -> Steps[frozenset[str]]:
    [rows] = yield Step(ask("subscribed_queues"), last=True)
    return frozenset(queue for (queue,) in rows)


def subscribe(_: Act, id: str, queue: str) -> Steps[int]:
    """Say that somebody listens; where he begins."""
    answers = yield Step(
        ask("subscribe", id=id, queue=queue, keep=SUBSCRIPTION_RETENTION),
        ask("messages_last"),
        last=True,
        synced=False,
    )
    return int(answers[1][0][0])


def unsubscribe(_: Act, id: str) -> Steps[None]:
    yield Step(ask("unsubscribe", id=id), last=True, synced=False)


def forget() -> tuple[Ask, Ask]:
    """What nobody needs any more."""
    return ask("messages_forget", keep=MESSAGE_RETENTION), ask("forget_subscriptions")


class Follower:
    """Goes through what was told, from one place on. Numbers are given out before the commit, so it
    looks back a little."""

    def __init__(self, seq: int) -> None:
        self._first = seq
        self._seen: deque[int] = deque(maxlen=BEHIND)

    def starts_anew(self, last: int) -> bool:
        """Whether the server has crashed: what is not in its log is gone, and then the numbers
        begin anew."""
        if last >= max(self._seen, default=self._first):
            return False
        self._first = last
        self._seen.clear()
        return True

    def news(self, _: Act) -> Steps[list[EventMessage]]:
        newest = max(self._seen, default=self._first)
        floor = max(self._first, newest - BEHIND)
        seen = [seq for seq in self._seen if seq > floor]
        [rows] = yield Step(ask("messages_since", seq=floor, seen=numbers(seen)), last=True)
        self._seen.extend(row[0] for row in rows)
        return read_told(row[1:] for row in rows)
