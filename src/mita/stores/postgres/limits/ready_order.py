"""In which order the due jobs of a queue start: by priority, ageing and the turns of fair groups.

A claim of a queue with fair groups reads the first jobs of each group (`claim_show.sql`), and not
all. So the order may become unknown: when all jobs that were read of a group have started, and
there may be more. Then the claim is made again."""

import heapq
from collections.abc import Iterable, Sequence
from typing import Any

from mita.model.job import NORMAL_WEIGHT_THOUSANDTHS
from mita.model.time import Moment, Wait
from mita.rules.readable import BAD
from mita.rules.shares import NO_GROUP, finish_tag, start_tag
from mita.stores.postgres.codec import ShownJob


class ShownGroups:
    """The groups of one priority, and whose turn it is."""

    def __init__(self, virtual: int = 0, finished: dict[str, int] | None = None) -> None:
        self.virtual = virtual
        self.finished = finished or {}
        self.is_changed = False
        self.is_unknown = False
        self._jobs: dict[str, list[ShownJob]] = {}
        self._heads: list[tuple[int, Moment, int, str]] = []  # start tag, due, age, group

    def add(self, group: str, jobs: list[ShownJob]) -> None:
        """Add the due jobs of a group, in their order."""
        self._jobs[group] = jobs[::-1]
        self._push(group, start_tag(self.virtual, self.finished.get(group, 0)))

    def first(self) -> ShownJob | None:
        """The job that starts next."""
        return self._jobs[self._heads[0][3]][-1] if self._heads else None

    def start_first(self, *, is_cut: bool) -> None:
        """The first job starts: its group has had a turn."""
        tag, *_, group = heapq.heappop(self._heads)
        job = self._jobs[group].pop()
        self.virtual, self.is_changed = tag, True
        weight = NORMAL_WEIGHT_THOUSANDTHS if group == NO_GROUP else max(1, job.weight)
        self.finished[group] = finish_tag(tag, weight)
        self._next(group, self.finished[group], is_cut=is_cut)

    def drop_first(self, *, is_cut: bool) -> None:
        """The first job does not start: its group keeps its turn."""
        tag, *_, group = heapq.heappop(self._heads)
        self._jobs[group].pop()
        self._next(group, tag, is_cut=is_cut)

    def _next(self, group: str, tag: int, *, is_cut: bool) -> None:
        if self._jobs[group]:
            self._push(group, tag)
        elif is_cut:
            self.is_unknown = True

    def _push(self, group: str, tag: int) -> None:
        job = self._jobs[group][-1]
        heapq.heappush(self._heads, (tag, job.due, job.seq, group))

    def ahead_of_all(self) -> dict[str, int]:
        """The groups that have a virtual time of their own."""
        return {group: tag for group, tag in self.finished.items() if tag > self.virtual}


class ReadyOrder:
    """The due jobs of one queue. `group_jobs` is how many of each group were read at most; None:
    all were read."""

    def __init__(
        self,
        jobs: Iterable[ShownJob],
        turns: Sequence[tuple[int, int, Any]],
        ageing: Wait | None,
        group_jobs: int | None = None,
    ) -> None:
        self.priorities = {at: ShownGroups(virtual, _tags(all)) for at, virtual, all in turns}
        self._ageing = ageing
        self._cut: set[tuple[int, str]] = set()
        groups: dict[tuple[int, str], list[ShownJob]] = {}
        for job in jobs:
            groups.setdefault((job.priority, job.group or NO_GROUP), []).append(job)
        for (priority, group), found in groups.items():
            found.sort(key=_due_and_age)
            if group_jobs is not None and len(found) >= group_jobs:
                self._cut.add((priority, group))
            self.priorities.setdefault(priority, ShownGroups()).add(group, found)

    @property
    def is_unknown(self) -> bool:
        """Whether more jobs must be read to know which is next."""
        return any(turns.is_unknown for turns in self.priorities.values())

    def first(self) -> ShownJob | None:
        """The job that starts next; None if there is none, or if it is unknown."""
        firsts = [job for turns in self.priorities.values() if (job := turns.first()) is not None]
        return None if not firsts or self.is_unknown else min(firsts, key=self._rank)

    def _rank(self, job: ShownJob) -> tuple[int, int, int, int]:
        rank = -job.priority if self._ageing is None else job.due - job.priority * self._ageing
        return rank, -job.priority, job.due, job.seq

    def start(self, job: ShownJob) -> None:
        """This job, which is the first, starts."""
        self.priorities[job.priority].start_first(is_cut=self._is_cut(job))

    def drop(self, job: ShownJob) -> None:
        """This job, which is the first, does not start."""
        self.priorities[job.priority].drop_first(is_cut=self._is_cut(job))

    def before(self, id: str) -> int | None:
        """How many jobs start before the job with this id; None if it is not among them."""
        count = 0
        while (job := self.first()) is not None:
            if job.id == id:
                return count
            self.start(job)
            count += 1
        return None

    def _is_cut(self, job: ShownJob) -> bool:
        return (job.priority, job.group or NO_GROUP) in self._cut


def _due_and_age(job: ShownJob) -> tuple[int, int]:
    return job.due, job.seq


def _tags(found: Any) -> dict[str, int]:
    """The virtual times of groups as they are stored. Groups begin anew if they cannot be read."""
    try:
        return {str(group): int(tag) for group, tag in found.items()}
    except (*BAD, AttributeError):
        return {}
