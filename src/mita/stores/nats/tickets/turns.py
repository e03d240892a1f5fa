"""Whose turn it is: the lanes of one priority of a queue (`stream.lanes`).

A store takes turns between the lanes by `rules.shares`, start by start. Each store has turns of its
own, so each claim shares its starts, and the shares of all together are right as well.

A lane that had no ticket is not asked for a moment, as long as the others have enough."""

import heapq
import time
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from mita.model.job import NORMAL_WEIGHT_THOUSANDTHS
from mita.rules.shares import finish_tag, start_tag
from mita.stores.nats.codec import NatsJob, slot_of

Lane: TypeAlias = tuple[str, int]  # queue and slot, which has its own consumer
EMPTY_BELIEVED_S = 0.1  # how long a lane without tickets is not asked again


class LaneTurns:
    """The turns of one store between the lanes of one priority of a queue."""

    def __init__(self) -> None:
        self._virtual = 0
        self._finished: dict[Lane, int] = {}
        self._weights: dict[Lane, int] = {}
        self._empty_until: dict[Lane, float] = {}

    def wanted(self, lanes: Sequence[Lane], starts: int) -> dict[Lane, int]:
        """Returns how many tickets to pull from each lane for so many starts."""
        now = time.monotonic()
        hopeful = [lane for lane in lanes if self._empty_until.get(lane, 0.0) <= now]
        if len(hopeful) == 1:
            return {hopeful[0]: starts}
        tags = [(self._start(lane), at, lane) for at, lane in enumerate(hopeful or lanes)]
        heapq.heapify(tags)
        wanted: dict[Lane, int] = {}
        for _ in range(starts):
            tag, at, lane = tags[0]
            wanted[lane] = wanted.get(lane, 0) + 1
            heapq.heapreplace(tags, (self._finish(lane, tag), at, lane))
        return wanted

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

    def without(self, lanes: Sequence[Lane], empty: Collection[Lane]) -> list[Lane]:
        """Returns the lanes that may have more tickets, after those that had too few."""
        until = time.monotonic() + EMPTY_BELIEVED_S
        self._empty_until.update(dict.fromkeys(empty, until))
        return [lane for lane in lanes if lane not in empty]
