"""The jobs that are not terminal, in the orders in which the verbs need them."""

from typing import TypeAlias

from mita.model.job import Job, State
from mita.rules.gates import keys_of

from .ready_jobs import ReadyJobs
from .sorted_ids import SortedIds

ResourceKey: TypeAlias = tuple[str, str]  # the queue and the name of the key
ByTime: TypeAlias = SortedIds[tuple[int, int, str]]  # point in time, age, id
ByPriority: TypeAlias = SortedIds[tuple[int, int, int, str]]  # priority (highest first), due, age


def keys(job: Job) -> list[ResourceKey]:
    """The keys of all gates of a job."""
    return [(job.queue, key) for key in keys_of(job.resource, job.gates)]


def waits_at(job: Job) -> ResourceKey | None:
    """The key at which a blocked job waits."""
    return None if job.blocked_at is None else (job.queue, job.blocked_at)


class JobIndex:
    """A job is added under its present state, and removed under the same state before it
    changes."""

    def __init__(self) -> None:
        self.leases: ByTime = SortedIds()
        self._queued: dict[str, ReadyJobs] = {}
        self._running: dict[str, int] = {}
        self._blocked: dict[ResourceKey, ByPriority] = {}
        self._holders: dict[ResourceKey, set[str]] = {}

    def add(self, job: Job, age: int) -> None:
        """Add a job."""
        key = waits_at(job)
        match job.state:
            case State.QUEUED:
                self._queued.setdefault(job.queue, ReadyJobs()).add(job, age)
            case State.BLOCKED if key:
                waiting = self._blocked.setdefault(key, SortedIds())
                waiting.add((-job.priority, job.due, age, job.id))
            case State.RUNNING:
                self.leases.add((job.lease_until or 0, age, job.id))
                self._running[job.queue] = self.running(job.queue) + 1
                for key in keys(job):
                    self._holders.setdefault(key, set()).add(job.id)
            case _:
                pass

    def remove(self, job: Job, age: int) -> None:
        """Remove a job."""
        key = waits_at(job)
        match job.state:
            case State.QUEUED:
                self._queued[job.queue].remove(job, age)
            case State.BLOCKED if key:
                waiting = self._blocked[key]
                waiting.remove((-job.priority, job.due, age, job.id))
                if not waiting:
                    del self._blocked[key]
            case State.RUNNING:
                self.leases.remove((job.lease_until or 0, age, job.id))
                self._running[job.queue] -= 1
                for key in keys(job):
                    self.remove_holder(key, job.id)
            case _:
                pass

    def remove_holder(self, key: ResourceKey, id: str) -> None:
        """This job does not have the resource key any more."""
        if key not in self._holders:
            return
        self._holders[key].discard(id)
        if not self._holders[key]:
            del self._holders[key]

    def of_queue(self, queue: str) -> ReadyJobs:
        """The queued jobs of a queue."""
        return self._queued.get(queue, ReadyJobs())

    def running(self, queue: str) -> int:
        """How many jobs of a queue are running."""
        return self._running.get(queue, 0)

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
