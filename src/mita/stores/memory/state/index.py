"""The jobs that are not terminal, in the orders in which the verbs need them."""

from collections.abc import Iterator
from typing import TypeAlias

from mita.model.job import Job, State
from mita.model.time import Moment

from .sorted_ids import SortedIds

ResourceKey: TypeAlias = tuple[str, str]  # the queue and the name of the key
ByTime: TypeAlias = SortedIds[tuple[int, int, str]]  # point in time, age, id
ByPriority: TypeAlias = SortedIds[tuple[int, int, int, str]]  # priority (highest first), due, age


def resource_key(job: Job) -> ResourceKey | None:
    """The resource key of a job, or None."""
    return None if job.resource is None else (job.queue, job.resource)


class JobIndex:
    """A job is added under its present state, and removed under the same state before it
    changes."""

    def __init__(self) -> None:
        self.leases: ByTime = SortedIds()
        self._queued: dict[str, dict[int, ByTime]] = {}
        self._blocked: dict[ResourceKey, ByPriority] = {}
        self._holders: dict[ResourceKey, set[str]] = {}

    def add(self, job: Job, age: int) -> None:
        """Add a job."""
        key = resource_key(job)
        match job.state:
            case State.QUEUED:
                queue = self._queued.setdefault(job.queue, {})
                queue.setdefault(job.priority, SortedIds()).add((job.due, age, job.id))
            case State.BLOCKED if key:
                waiting = self._blocked.setdefault(key, SortedIds())
                waiting.add((-job.priority, job.due, age, job.id))
            case State.RUNNING:
                self.leases.add((job.lease_until or 0, age, job.id))
                if key:
                    self._holders.setdefault(key, set()).add(job.id)
            case _:
                pass

    def remove(self, job: Job, age: int) -> None:
        """Remove a job."""
        key = resource_key(job)
        match job.state:
            case State.QUEUED:
                self._queued[job.queue][job.priority].remove((job.due, age, job.id))
            case State.BLOCKED if key:
                waiting = self._blocked[key]
                waiting.remove((-job.priority, job.due, age, job.id))
                if not waiting:
                    del self._blocked[key]
            case State.RUNNING:
                self.leases.remove((job.lease_until or 0, age, job.id))
                if key:
                    self.remove_holder(key, job.id)
            case _:
                pass

    def remove_holder(self, key: ResourceKey, id: str) -> None:
        """This job does not have the resource key any more."""
        self._holders[key].discard(id)
        if not self._holders[key]:
            del self._holders[key]

    def due(self, queue: str, now: Moment) -> str | None:
        """The id of the job to start next: of the highest priority that has a due job, the job that
        was due first."""
        for ids in self._by_priority(queue):
            if ids.first is not None and ids.first[0] <= now:
                return ids.first[-1]
        return None

    def ready(self, queue: str, now: Moment) -> list[str]:
        """All due jobs of a queue, in the order in which they start."""
        return [id for ids in self._by_priority(queue) for id in ids.until(now)]

    def next_due(self, queue: str) -> Moment | None:
        """The earliest due time of a queue."""
        firsts = [ids.first[0] for ids in self._by_priority(queue) if ids.first is not None]
        return min(firsts, default=None)

    def blocked(self, key: ResourceKey) -> list[str]:
        """The jobs that wait for a resource key, in the order in which they start."""
        return list(self._blocked.get(key, ()))

    def waited_for(self) -> list[ResourceKey]:
        """The resource keys for which jobs wait."""
        return list(self._blocked)

    def holders(self, key: ResourceKey) -> set[str]:
        """The running jobs that have a resource key."""
        return self._holders.get(key, set())

    def held(self) -> list[ResourceKey]:
        """The resource keys that running jobs have."""
        return list(self._holders)

    def _by_priority(self, queue: str) -> Iterator[ByTime]:
        found = self._queued.get(queue, {})
        return (found[priority] for priority in sorted(found, reverse=True))
