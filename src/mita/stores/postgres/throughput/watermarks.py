"""How far claims have read the index of waiting jobs: for each queue and priority a point in time
before which no job is due.

Without it, every claim reads over all index entries that were ever claimed and not yet vacuumed.
After a minute beside a session that keeps an old snapshot open, those are a million. A watermark
only saves work. Three things keep it right:

- It stays `SLACK_MS` behind the clock, because a job that is being enqueued now may appear a little
  in the past.
- A job that returns to the queue with an old due time increases the sequence `_behind`. After that
  no watermark is trusted for a while.
- From time to time the index is read from its beginning, in case a transaction took longer than
  `SLACK_MS`.
"""

import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from mita.model.time import SECOND, Moment

from .known_priorities import KnownPriorities, QueuePriority

SLACK_MS = SECOND
REFRESH_BUSY_S = 0.1  # between two reads from the watermarks on, after BUSY_JOBS claimed jobs
BUSY_JOBS = 100
# Between two such reads otherwise. A worker should not read when it is woken for a job, but when it
# wakes by itself.
REFRESH_IDLE_S = 1.0
FULL_READ_S = 1.0  # between two reads from the beginning of the index, or longer:
FULL_READ_SHARE = 0.05  # the part of the time that they may take
FULL_LEASE_READ_S = 60.0  # between two reads of all leases
MOST_KEYS = 10_000  # resource keys whose watermarks are remembered
ResourceKey: TypeAlias = tuple[str, str]  # queue, name
# After a full read that took longer, dead rows of unknown priorities may be what took the time:
# then every priority gets a watermark. A quicker one tells which priorities are not used.
SLOW_FULL_READ_S = 0.25
RANGE_MARK: Moment = (
    -1
)  # in place of a watermark: of a range of priorities in which no job is expected


class ClaimLine(NamedTuple):
    """Where a claim looks: a queue, its place in the order of the queues, and the priorities from
    `low` to `high`. Nothing waits before the watermark."""

    queue: str
    turn: int
    low: int
    high: int
    watermark: Moment


class Watermarks:
    """The watermarks of one store."""

    def __init__(self) -> None:
        self.behind = -1  # the value of the sequence `_behind` that the watermarks belong to
        self.priorities = KnownPriorities()
        self._marks: dict[QueuePriority, Moment] = {}
        self._trusted_from: Moment = 0
        self._now: Moment = 0
        self._refreshed_s = self._full_read_s = self._full_lease_read_s = 0.0
        self._claimed = 0
        self._lease: Moment = 0
        self._keys: dict[ResourceKey, Moment] = {}

    def of(self, queues: list[str]) -> list[Moment]:
        """One watermark for each queue and known priority, in the order in which they are
        served."""
        return [self._marks.get(one, 0) for one in self.priorities.of(queues)]

    def lines(self, queues: list[str]) -> list[ClaimLine]:
        """Where a claim of these queues looks, in this order."""
        return [
            ClaimLine(
                queue,
                turn,
                span.low,
                span.high,
                self._marks.get((queue, span.low), 0) if span.is_known else RANGE_MARK,
            )
            for turn, queue in enumerate(queues)
            for span in self.priorities.spans(queue)
        ]

    def read_from(self, queues: list[str]) -> dict[QueuePriority, Moment] | None:
        """Where to read on for each queue and known priority; None while it is too early."""
        now_s = time.monotonic()
        pause_s = REFRESH_BUSY_S if self._claimed >= BUSY_JOBS else REFRESH_IDLE_S
        if now_s < self._refreshed_s + pause_s or self._now < self._trusted_from:
            return None
        if now_s >= self._full_read_s:
            return dict.fromkeys(self.priorities.of(queues), 0)
        return dict(zip(self.priorities.of(queues), self.of(queues), strict=True))

    def move(
        self,
        now: Moment,
        firsts: list[Moment | None],
        read_from: dict[QueuePriority, Moment],
        took_s: float,
    ) -> None:
        """Set the watermarks after a read that began at `read_from` and took `took_s` seconds.
        `firsts` are the due times of the first waiting jobs."""
        self._refreshed_s, self._claimed = time.monotonic(), 0
        found = dict(zip(read_from, firsts, strict=True))
        if not any(read_from.values()):
            self._full_read_s = time.monotonic() + max(FULL_READ_S, took_s / FULL_READ_SHARE)
            self._notice(found, took_s)
        safe = now - SLACK_MS
        self._marks |= {
            one: safe if first is None else min(first, safe) for one, first in found.items()
        }

    def _notice(self, found: dict[QueuePriority, Moment | None], took_s: float) -> None:
        """Learn from a full read which priorities are in use."""
        if took_s > SLOW_FULL_READ_S:
            self.priorities.learn_all({queue for queue, _ in found})
        else:
            unused = [one for one, first in found.items() if first is None]
            self.priorities.notice(found.keys() - unused, unused)

    def still_hold(self, now: Moment, behind: int, claimed: int) -> bool:
        """Whether the watermarks are still right after a claim, which returned the server's time
        (`now`) and the value of the sequence `_behind`. If the sequence has grown or the clock was
        set back, the watermarks are deleted."""
        self._claimed += claimed
        hold = behind == self.behind and now >= self._now
        if not hold:
            self.behind = behind
            self._marks.clear()
            if now < self._now:
                self._keys.clear()
            self._trusted_from = now + SLACK_MS
        self._now = now
        return hold

    def of_keys(self, keys: Iterable[ResourceKey]) -> list[Moment]:
        """For each resource key a point in time before which none of its holders has started."""
        return [self._keys.get(key, 0) for key in keys]

    def move_keys(self, found: Mapping[ResourceKey, tuple[Moment | None, Moment]]) -> None:
        """Set the watermarks of keys: when the first holder of each started, and the clock, both
        read under the key's lock. A later holder needs that lock and starts later, so this needs
        neither slack nor sequence."""
        if len(self._keys) + len(found) > MOST_KEYS:
            self._keys.clear()
        self._keys |= {
            key: now if first is None else min(first, now) for key, (first, now) in found.items()
        }

    @property
    def lease(self) -> Moment:
        """No lease ends before this point in time. A lease is only ever given an end in the future,
        so this needs no sequence."""
        return 0 if time.monotonic() >= self._full_lease_read_s else self._lease

    def move_lease(self, now: Moment, first: Moment | None) -> None:
        """Set the watermark of leases. `first` is the end of the lease that ends first."""
        if time.monotonic() >= self._full_lease_read_s:
            self._full_lease_read_s = time.monotonic() + FULL_LEASE_READ_S
        self._lease = now - SLACK_MS if first is None else min(first, now - SLACK_MS)
