"""How far claimers have walked: a moment for each queue and priority, below which no job waits.

Without it a claim walks over every index entry that was ever claimed and not yet swept away: after
a minute beside a session that keeps an old snapshot open, a million of them. A mark only spares
that walk, and three things keep it honest:

- It stays `SLACK` behind the clock, because a job that is being enqueued right now may show up a
  little in the past.
- A job that goes back to the queue with an old due time makes the sequence `_behind` grow: no mark
  is trusted for a while.
- Now and then the whole line is looked at: the net under a transaction that took longer than that.
"""

import time
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from mita.model.job import PRIORITIES
from mita.model.time import SECOND, Moment

SLACK = SECOND
REFRESH = 0.1  # seconds between two looks from the marks on …
FEW = 100  # … if that many jobs were shown since the last …
# … or else: a worker that was asleep should not look when it is woken, but when it wakes by itself
REFRESH_IDLE = 1.0
LOOK_AT_ALL = 1.0  # seconds between two looks at the whole line …
AT_MOST_A_SHARE = 20  # … or longer, if that look is slow: it may take a twentieth of the time
LOOK_AT_ALL_LEASES = 60.0
MOST_KEYS = 10_000  # whose marks are remembered
Key: TypeAlias = tuple[str, str]  # queue, name
_FALLING = tuple(reversed(PRIORITIES))


class Marks:
    """The marks of one store."""

    def __init__(self) -> None:
        self.behind = -1
        self._marks: dict[str, list[Moment]] = {}
        self._trusted_from: Moment = 0
        self._now: Moment = 0
        self._refreshed = self._all_at = self._all_leases_at = 0.0
        self._shown = 0
        self._lease: Moment = 0
        self._keys: dict[Key, Moment] = {}

    def of(self, queues: list[str]) -> list[Moment]:
        """One for each queue and priority, in the order of `lines`."""
        return [mark for queue in queues for mark in self._marks.get(queue) or [0] * len(_FALLING)]

    def wanted(self, queues: list[str]) -> list[Moment] | None:
        """From where to look, if it is time to look again."""
        at = time.monotonic()
        pause = REFRESH if self._shown >= FEW else REFRESH_IDLE
        if at < self._refreshed + pause or self._now < self._trusted_from:
            return None
        if at >= self._all_at:
            return [0] * (len(queues) * len(_FALLING))
        return self.of(queues)

    def found(
        self,
        queues: list[str],
        now: Moment,
        firsts: list[Moment | None],
        looked: list[Moment],
        took: float,
    ) -> None:
        """What waits first in each line, by a look that took so many seconds."""
        self._refreshed, self._shown = time.monotonic(), 0
        if not any(looked):
            self._all_at = time.monotonic() + max(LOOK_AT_ALL, took * AT_MOST_A_SHARE)
        safe = now - SLACK
        marks = [safe if first is None else min(first, safe) for first in firsts]
        width = len(_FALLING)
        for n, queue in enumerate(queues):
            self._marks[queue] = marks[n * width : (n + 1) * width]

    def heard(self, now: Moment, behind: int, shown: int) -> bool:
        """What the sequence said in a claim that has shown so many jobs; whether the marks hold. A
        clock that was set back makes them worthless too."""
        self._shown += shown
        holds = behind == self.behind and now >= self._now
        if not holds:
            self.behind = behind
            self._marks.clear()
            if now < self._now:
                self._keys.clear()
            self._trusted_from = now + SLACK
        self._now = now
        return holds

    def of_keys(self, keys: Iterable[Key]) -> list[Moment]:
        """For each resource key a moment before which none of its holders has begun."""
        return [self._keys.get(key, 0) for key in keys]

    def found_keys(self, found: Mapping[Key, tuple[Moment | None, Moment]]) -> None:
        """When the first holder of each key began, and the clock, read by one who had the key's
        lock. Whoever takes the key must have that lock and begins later, so this needs neither
        slack nor sequence."""
        if len(self._keys) + len(found) > MOST_KEYS:
            self._keys.clear()
        self._keys |= {
            key: now if first is None else min(first, now) for key, (first, now) in found.items()
        }

    @property
    def lease(self) -> Moment:
        """Below this moment no lease ends. Leases are only ever made to end in the future: this
        mark needs no sequence."""
        return 0 if time.monotonic() >= self._all_leases_at else self._lease

    def found_lease(self, now: Moment, first: Moment | None) -> None:
        if time.monotonic() >= self._all_leases_at:
            self._all_leases_at = time.monotonic() + LOOK_AT_ALL_LEASES
        self._lease = now - SLACK if first is None else min(first, now - SLACK)


def lines(queues: list[str]) -> tuple[list[str], list[int]]:
    """Queue and priority of each line, in the order in which they are served."""
    return [queue for queue in queues for _ in _FALLING], list(_FALLING) * len(queues)
