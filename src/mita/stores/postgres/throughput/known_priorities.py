"""Which priorities the waiting jobs of each queue have, as far as this process knows.

A claim reads the index of waiting jobs once for each known priority, and once for each range of
priorities between them, where it expects no job. If it finds one there, it takes nothing: the
process remembers the new priority, and claims again. So the cost of a claim grows with the
priorities in use, and a claim misses none."""

import time
from collections.abc import Iterable
from typing import NamedTuple

from mita.model.job import DEFAULT_PRIORITY, PRIORITIES

FORGET_S = 60.0  # a priority is forgotten after so long without a waiting job
QueuePriority = tuple[str, int]


class PrioritySpan(NamedTuple):
    """The priorities from `low` to `high`: a known one, or a range in which no job is expected."""

    low: int
    high: int
    is_known: bool


class KnownPriorities:
    """The known priorities of each queue. The default priority is always known."""

    def __init__(self) -> None:
        self._known: dict[str, list[int]] = {}  # highest first
        self._spans: dict[str, list[PrioritySpan]] = {}
        self._unused_since_s: dict[QueuePriority, float] = {}

    def of(self, queues: Iterable[str]) -> list[QueuePriority]:
        """The known priorities of these queues, in the order in which they are served."""
        return [
            (queue, priority)
            for queue in queues
            for priority in self._known.get(queue, (DEFAULT_PRIORITY,))
        ]

    def spans(self, queue: str) -> list[PrioritySpan]:
        """All priorities of a queue, in the order in which they are served."""
        found = self._spans.get(queue)
        if found is None:
            found = self._spans[queue] = _spans(self._known.get(queue, [DEFAULT_PRIORITY]))
        return found

    def learn(self, found: Iterable[QueuePriority]) -> None:
        """Remember these."""
        for queue, priority in found:
            known = {DEFAULT_PRIORITY, priority, *self._known.get(queue, ())}
            self._set(queue, known)

    def learn_all(self, queues: Iterable[str]) -> None:
        """Remember all priorities for these queues, until it is clear which are used."""
        for queue in queues:
            self._set(queue, PRIORITIES)

    def notice(self, used: Iterable[QueuePriority], unused: Iterable[QueuePriority]) -> None:
        """These priorities have waiting jobs, and these have none. Those that had none for long are
        forgotten."""
        now_s = time.monotonic()
        for one in used:
            self._unused_since_s.pop(one, None)
        for queue, priority in unused:
            since_s = self._unused_since_s.setdefault((queue, priority), now_s)
            if now_s >= since_s + FORGET_S and priority != DEFAULT_PRIORITY:
                del self._unused_since_s[queue, priority]
                self._set(queue, set(self._known.get(queue, ())) - {priority})

    def _set(self, queue: str, known: Iterable[int]) -> None:
        self._known[queue] = sorted(known, reverse=True)
        self._spans.pop(queue, None)


def _spans(known: list[int]) -> list[PrioritySpan]:
    spans = []
    high = PRIORITIES[-1]
    for priority in known:
        if priority < high:
            spans.append(PrioritySpan(priority + 1, high, is_known=False))
        spans.append(PrioritySpan(priority, priority, is_known=True))
        high = priority - 1
    if high >= PRIORITIES[0]:
        spans.append(PrioritySpan(PRIORITIES[0], high, is_known=False))
    return spans
