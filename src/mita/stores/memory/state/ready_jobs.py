"""The queued jobs of one queue, and which of them starts next."""

from copy import deepcopy
from typing import NamedTuple

from mita.model.job import NORMAL_WEIGHT_THOUSANDTHS, Job
from mita.model.time import Moment, Wait
from mita.rules.shares import NO_GROUP, finish_tag, start_tag

from .sorted_ids import SortedIds


class _First(NamedTuple):
    """The first due job of a priority, in the order in which priorities are compared."""

    rank: int
    lower: int
    due: Moment
    age: int
    id: str


class _Priority:
    """The queued jobs of one priority: those of each group by due time and age, and the virtual
    times by which the groups take turns (`rules.shares`)."""

    def __init__(self) -> None:
        self.groups: dict[str, SortedIds[tuple[int, int, str]]] = {}
        self.virtual = 0
        self.finished: dict[str, int] = {}

    def first(self, now: Moment) -> tuple[int, int, str] | None:
        """Due time, age and id of the job that starts next."""
        due = [
            (start_tag(self.virtual, self.finished.get(group, 0)), *ids.first)
            for group, ids in self.groups.items()
            if ids.first is not None and ids.first[0] <= now
        ]
        return min(due)[1:] if due else None

    def start(self, group: str, weight: int) -> None:
        """A job of this group starts. Groups that have no virtual time of their own are
        forgotten."""
        self.virtual = start_tag(self.virtual, self.finished.get(group, 0))
        self.finished[group] = finish_tag(self.virtual, weight)
        self.finished = {name: tag for name, tag in self.finished.items() if tag > self.virtual}


class _Place(NamedTuple):
    """Where a job is, and the weight of its group."""

    priority: _Priority
    group: str
    weight: int


class ReadyJobs:
    """The queued jobs of one queue: also the jobs that are not due yet."""

    def __init__(self) -> None:
        self.priorities: dict[int, _Priority] = {}
        self._has_groups = False  # since its first job with `fair`
        self._place: dict[str, _Place] = {}  # by id

    def add(self, job: Job, age: int) -> None:
        """Add a queued job."""
        group = job.fair or NO_GROUP
        self._has_groups = self._has_groups or job.fair is not None
        priority = self.priorities.setdefault(job.priority, _Priority())
        priority.groups.setdefault(group, SortedIds()).add((job.due, age, job.id))
        weight = job.weight if job.fair else NORMAL_WEIGHT_THOUSANDTHS
        self._place[job.id] = _Place(priority, group, weight)

    def remove(self, job: Job, age: int) -> None:
        """Remove a job before it changes."""
        groups = self.priorities[job.priority].groups
        group = job.fair or NO_GROUP
        groups[group].remove((job.due, age, job.id))
        if not groups[group]:
            del groups[group]
        del self._place[job.id]

    def first(self, now: Moment, ageing: Wait | None) -> str | None:
        """The id of the job that starts next, or None if no job is due."""
        return first_of(self, now, ageing)

    def start(self, id: str) -> None:
        """This job starts: its group has had a turn, if the queue has groups."""
        place = self._place[id]
        if self._has_groups:
            place.priority.start(place.group, place.weight)

    def ready(self, now: Moment, ageing: Wait | None) -> list[str]:
        """All due jobs, in the order in which they start if nothing changes."""
        rest, order = deepcopy(self), []
        while (id := first_of(rest, now, ageing)) is not None:
            order.append(id)
            rest.start_first(id)
        return order

    def start_first(self, id: str) -> None:
        """Start this job, which is the first of its group, and remove it."""
        place = self._place[id]
        ids = place.priority.groups[place.group]
        assert ids.first is not None, "a job that is first is there"  # noqa: S101
        ids.remove(ids.first)
        self.start(id)

    def next_due(self) -> Moment | None:
        """The earliest due time."""
        firsts = [
            ids.first[0]
            for jobs in self.priorities.values()
            for ids in jobs.groups.values()
            if ids.first is not None
        ]
        return min(firsts, default=None)


def _rank(priority: int, due: Moment, ageing: Wait | None) -> int:
    """The place of a job among the first jobs of other priorities: the smallest starts first."""
    return -priority if ageing is None else due - priority * ageing


def first_of(jobs: ReadyJobs, now: Moment, ageing: Wait | None) -> str | None:
    """The id of the first due job of all priorities, or None."""
    firsts = [
        _First(_rank(priority, found[0], ageing), -priority, *found)
        for priority, one in jobs.priorities.items()
        if (found := one.first(now)) is not None
    ]
    return min(firsts).id if firsts else None
