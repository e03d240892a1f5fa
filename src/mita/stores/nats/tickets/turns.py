"""Whose turn it is: the lanes of one priority of a queue (`stream.lanes`).

A store takes turns between the lanes by `rules.shares`, start by start. Each store has turns of its
own, so each claim shares its starts, and the shares of all together are right as well.

A lane that had too few tickets is not asked for a moment, as long as the others have enough. After
that it is asked beside the others: they are asked for as many tickets as if it were still empty. So
lanes without jobs do not slow a claim down. If it has tickets after all, some are left over."""

import heapq
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from mita.model.job import NORMAL_WEIGHT_THOUSANDTHS
from mita.rules.shares import finish_tag, start_tag
from mita.stores.nats.codec import NatsJob
from mita.stores.nats.stream.slots import slot_of

Lane: TypeAlias = tuple[str, int]  # queue and slot, which has its own consumer
EMPTY_BELIEVED_S = 0.1  # how long a lane is not asked again that had too few tickets
LONGEST_EMPTY_S = 0.4  # the same of a lane that had none for a while, until it gets one


class LaneTurns:
    """The turns of one store between the lanes of one priority of a queue."""

    def __init__(self) -> None:
        self._virtual = 0
        self._finished: dict[Lane, int] = {}
        self._weights: dict[Lane, int] = {}
        # Lanes that had too few tickets: until when they are not asked, and for how long that is.
        self._empty: dict[Lane, tuple[float, float]] = {}

    def wanted(self, lanes: Sequence[Lane], starts: int) -> dict[Lane, int]:
        """Returns how many tickets to pull from each lane for so many starts. Lanes that were empty
        are asked for their share beside these."""
        full = [lane for lane in lanes if lane not in self._empty]
        if len(full) == len(lanes):
            return self._shares(lanes, starts)
        now = time.monotonic()
        perhaps = [lane for lane in lanes if lane in self._empty and self._empty[lane][0] <= now]
        if not full:
            return self._shares(perhaps or lanes, starts)
        wanted = self._shares(full, starts)
        if perhaps:
            shares = self._shares([*full, *perhaps], starts)
            wanted |= {lane: shares[lane] for lane in perhaps if lane in shares}
        return wanted

    def _shares(
        self, lanes: Sequence[Lane], starts: int, most: Mapping[Lane, int] | None = None
    ) -> dict[Lane, int]:
        """Returns how many of so many starts each lane gets, at most as many as it has."""
        if len(lanes) == 1 and most is None:
            return {lanes[0]: starts}
        tags = [(self._start(lane), at, lane) for at, lane in enumerate(lanes)]
        heapq.heapify(tags)
        shares: dict[Lane, int] = {}
        for _ in range(starts):
            tag, at, lane = tags[0]
            shares[lane] = shares.get(lane, 0) + 1
            if most is not None and shares[lane] >= most[lane]:
                heapq.heappop(tags)
            else:
                heapq.heapreplace(tags, (self._finish(lane, tag), at, lane))
        return shares

    def chosen(self, came: Mapping[Lane, int], starts: int) -> dict[Lane, int]:
        """Returns how many of the tickets that came from each lane are for so many starts."""
        return self._shares(list(came), min(starts, sum(came.values())), came)

    def _start(self, lane: Lane) -> int:
        return start_tag(self._virtual, self._finished.get(lane, 0))

    def _finish(self, lane: Lane, start: int) -> int:
        return finish_tag(start, self._weights.get(lane, NORMAL_WEIGHT_THOUSANDTHS))

    def started(self, jobs: Iterable[NatsJob]) -> None:
        """These jobs start, all of one lane with the weight of its last one. Lanes that have no
        virtual time of their own are forgotten."""
        last: dict[int, NatsJob] = {}
        counts: dict[int, int] = {}
        for job in jobs:
            slot = slot_of(job)
            counts[slot] = counts.get(slot, 0) + 1
            last[slot] = job
        latest = self._virtual
        for slot, count in counts.items():
            job = last[slot]
            lane = job.queue, slot
            if job.fair is not None:
                self._weights[lane] = job.weight
            start = self._start(lane)
            step = self._finish(lane, start) - start
            latest = max(latest, start + (count - 1) * step)
            self._finished[lane] = start + count * step
        self._virtual = latest
        self._finished = {lane: tag for lane, tag in self._finished.items() if tag > latest}

    def without_empty(
        self, lanes: Sequence[Lane], wanted: Mapping[Lane, int], came: Mapping[Lane, int]
    ) -> list[Lane]:
        """Returns the lanes that may have more tickets, when so many were wanted and came."""
        now = time.monotonic()
        for lane, most in wanted.items():
            found = came.get(lane, 0)
            if found >= most:
                self._empty.pop(lane, None)
                continue
            was_empty = not found and lane in self._empty
            wait = min(2 * self._empty[lane][1], LONGEST_EMPTY_S) if was_empty else EMPTY_BELIEVED_S
            self._empty[lane] = now + wait, wait
        return [lane for lane in lanes if came.get(lane, 0) >= wanted.get(lane, 0)]

    def has_ticket(self, lane: Lane) -> None:
        """A lane has got a new ticket: it is asked next time."""
        self._empty.pop(lane, None)


def lane_of(job: NatsJob) -> Lane:
    """Returns the lane of a job."""
    return job.queue, slot_of(job)
