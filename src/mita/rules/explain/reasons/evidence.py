"""What bears on one job, and what a reason looks like."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from mita.model.job import Job
from mita.model.outcome import TimelineEntry
from mita.model.policy import Retry
from mita.model.repeat import Repeat
from mita.model.time import Moment
from mita.model.view import QueueView, ResourceView, WorkerView
from mita.printable import shell_command

from .words import clock, span

APP = "MODULE:APP"


class Code(StrEnum):
    """What kind of reason it is, for programs."""

    RUNNING = "running"
    ASKED = "asked"
    TIMED_OUT = "timed out"
    LEASE_OVER = "lease over"
    DUE = "due"
    EXPIRED = "expired"
    PAST_DEADLINE = "past deadline"
    SLOWED = "slowed"
    KEY_HELD = "key held"
    KEY_UNAVAILABLE = "key unavailable"
    KEY_FREE = "key free"
    PAUSED = "queue paused"
    NO_WORKER = "no worker"
    TASK_UNKNOWN = "task unknown"
    BUSY = "workers busy"
    NEXT = "next"
    CLOCK = "clock"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TWIN = "twin"
    REPEAT_PAUSED = "repeat paused"


class Reason(Struct, frozen=True):
    """One reason, in words; what can be done about it (empty: nothing needs to be); and what it
    rests on, for programs.

    Where a command helps, the remedy ends with it as it can be pasted, and `command` has its words
    without the first one, `mita`. `APP` among them stands for the place of the app, `MODULE:APP`.
    """

    code: Code
    text: str
    remedy: str = ""
    evidence: dict[str, Any] = {}
    command: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.text} ({self.remedy})" if self.remedy else self.text


def advise(advice: str, *command: str) -> dict[str, Any]:
    """The remedy of a reason, and its command."""
    return {"remedy": f"{advice}: {shell_command(('mita', *command))}", "command": command}


class Evidence(Struct, frozen=True, kw_only=True):
    """What a store knows that bears on one job. `twin` is another job that has this one's unique
    key now, `repeat` the repeat that made it."""

    job: Job
    now: Moment
    events: tuple[TimelineEntry, ...] = ()
    retry: Retry = Retry()
    timeout: float | None = None
    queues: tuple[QueueView, ...] = ()
    ahead: int | None = None
    resource: ResourceView | None = None
    workers: tuple[WorkerView, ...] = ()
    twin: str | None = None
    repeat: Repeat | None = None

    @property
    def paused(self) -> Moment | None:
        """Since when its queue is."""
        return next((view.paused for view in self.queues if view.name == self.job.queue), None)

    @property
    def knowing(self) -> list[WorkerView]:
        """Workers of this queue that know its task."""
        return [worker for worker in self.serving if self.job.task in worker.tasks]

    @property
    def serving(self) -> list[WorkerView]:
        """Workers of this queue."""
        return [worker for worker in self.workers if _serves(worker, self.job.queue)]

    @property
    def full(self) -> bool:
        """No worker of this queue has room: they said so in their last beat, or as much runs as
        there are slots. The store's own count is the fresher of the two, but knows nothing of
        threads."""
        if all(worker.full or worker.running >= worker.slots for worker in self.serving):
            return True
        shared = [
            view
            for view in self.queues
            if any(_serves(worker, view.name) for worker in self.serving)
        ]
        beside = [
            worker for worker in self.workers if any(_serves(worker, view.name) for view in shared)
        ]
        return sum(view.running for view in shared) >= sum(worker.slots for worker in beside)

    def worker(self, id: str | None) -> str:
        named = [
            f"{worker.name} (pid {worker.pid} on {worker.host})"
            for worker in self.workers
            if worker.id == id
        ]
        return f"worker {named[0] if named else id or 'unknown'}"

    def ago(self, moment: Moment) -> str:
        return f"{clock(moment, self.now)}, {span(self.now - moment)} ago"


def _serves(worker: WorkerView, queue: str) -> bool:
    """One that names no queue serves them all."""
    return not worker.queues or queue in worker.queues
