"""Where every living job stands, in the orders that the verbs ask for."""

from collections.abc import Iterator
from typing import TypeAlias

from mita.model.job import Job, State
from mita.model.time import Moment

from .line import Line

Place: TypeAlias = tuple[str, str]  # a resource key: its queue and its name
ByTime: TypeAlias = Line[tuple[int, int, str]]  # moment, age, id
ByRank: TypeAlias = Line[tuple[int, int, int, str]]  # priority (highest first), due, age, id


def place(job: Job) -> Place | None:
    return None if job.resource is None else (job.queue, job.resource)


class Index:
    """A job is added under its present state, and removed under the same before it changes."""

    def __init__(self) -> None:
        self.leases: ByTime = Line()
        self._queued: dict[str, dict[int, ByTime]] = {}
        self._blocked: dict[Place, ByRank] = {}
        self._holders: dict[Place, set[str]] = {}

    def add(self, job: Job, age: int) -> None:
        where = place(job)
        match job.state:
            case State.QUEUED:
                lines = self._queued.setdefault(job.queue, {})
                lines.setdefault(job.priority, Line()).add((job.due, age, job.id))
            case State.BLOCKED if where:
                self._blocked.setdefault(where, Line()).add((-job.priority, job.due, age, job.id))
            case State.RUNNING:
                self.leases.add((job.lease_until or 0, age, job.id))
                if where:
                    self._holders.setdefault(where, set()).add(job.id)
            case _:
                pass

    def remove(self, job: Job, age: int) -> None:
        where = place(job)
        match job.state:
            case State.QUEUED:
                self._queued[job.queue][job.priority].remove((job.due, age, job.id))
            case State.BLOCKED if where:
                line = self._blocked[where]
                line.remove((-job.priority, job.due, age, job.id))
                if not line:
                    del self._blocked[where]
            case State.RUNNING:
                self.leases.remove((job.lease_until or 0, age, job.id))
                if where:
                    self.let_go(where, job.id)
            case _:
                pass

    def let_go(self, where: Place, id: str) -> None:
        self._holders[where].discard(id)
        if not self._holders[where]:
            del self._holders[where]

    def due(self, queue: str, now: Moment) -> str | None:
        """The job whose turn it is: of the highest priority that has a due one, the one that was
        due first."""
        for line in self._by_priority(queue):
            if line.first is not None and line.first[0] <= now:
                return line.first[-1]
        return None

    def ready(self, queue: str, now: Moment) -> list[str]:
        """All due jobs of a queue, in their order."""
        return [id for line in self._by_priority(queue) for id in line.until(now)]

    def next_due(self, queue: str) -> Moment | None:
        return min(
            (line.first[0] for line in self._by_priority(queue) if line.first is not None),
            default=None,
        )

    def blocked(self, where: Place) -> list[str]:
        """The jobs that wait for a key, in their order."""
        return list(self._blocked.get(where, ()))

    def waited_for(self) -> list[Place]:
        return list(self._blocked)

    def holders(self, where: Place) -> set[str]:
        return self._holders.get(where, set())

    def held(self) -> list[Place]:
        return list(self._holders)

    def _by_priority(self, queue: str) -> Iterator[ByTime]:
        lines = self._queued.get(queue, {})
        return (lines[priority] for priority in sorted(lines, reverse=True))
