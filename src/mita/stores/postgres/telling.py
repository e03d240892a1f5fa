"""Telling what happens: a few rows that are soon forgotten, and a ring. None of it waits for the disk."""

from collections import deque
from collections.abc import Sequence

from mita.ports.ear import EAR_KEEP, MOST_TOLD, TOLD_KEEP, Told, read_told
from mita.ports.store import TOLD

from .arrays import numbers
from .steps import Act, Ask, Step, Steps, ask

BEHIND = 200  # rows: so far a transaction that began early may come late


def tell(act: Act, told: Sequence[Told]) -> Steps[None]:
    rows = [ask("tell", queue=one.queue, count=one.count, events=one.events) for one in told]
    yield Step(*rows, ask("trim_told", most=MOST_TOLD), last=True, synced=False)
    act.topics.add(TOLD)


def listened(_: Act) -> Steps[frozenset[str]]:
    [rows] = yield Step(ask("listened"), last=True)
    return frozenset(queue for (queue,) in rows)


def listen(_: Act, id: str, queue: str) -> Steps[int]:
    """Say that somebody listens; where he begins."""
    answers = yield Step(ask("listen", id=id, queue=queue, keep=EAR_KEEP), ask("told_last"), last=True, synced=False)
    return int(answers[1][0][0])


def deafen(_: Act, id: str) -> Steps[None]:
    yield Step(ask("deafen", id=id), last=True, synced=False)


def forget() -> tuple[Ask, Ask]:
    """What nobody needs any more."""
    return ask("forget_told", keep=TOLD_KEEP), ask("bury_ears")


class Follower:
    """Goes through what was told, from one place on. Numbers are given out before the commit, so it looks back a little."""

    def __init__(self, seq: int) -> None:
        self._first = seq
        self._seen: deque[int] = deque(maxlen=BEHIND)

    def starts_anew(self, last: int) -> bool:
        """Whether the server has crashed: what is not in its log is gone, and then the numbers begin anew."""
        if last >= max(self._seen, default=self._first):
            return False
        self._first = last
        self._seen.clear()
        return True

    def news(self, _: Act) -> Steps[list[Told]]:
        newest = max(self._seen, default=self._first)
        floor = max(self._first, newest - BEHIND)
        seen = [seq for seq in self._seen if seq > floor]
        [rows] = yield Step(ask("told_since", seq=floor, seen=numbers(seen)), last=True)
        self._seen.extend(row[0] for row in rows)
        return read_told(row[1:] for row in rows)
