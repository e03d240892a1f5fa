"""What `explain` takes (`Evidence`) and what it returns (`Reason`)."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from mita.model.gate import Gate
from mita.model.job import Job, State
from mita.model.outcome import BY_HANDLER, OUTSIDE, TimelineEntry
from mita.model.policy import Retry
from mita.model.record import DisplayState
from mita.model.repeat import Repeat
from mita.model.time import Moment
from mita.model.view import QueueView, ResourceView, WorkerView
from mita.printable import shell_command
from mita.rules.display import clock, span
from mita.rules.gates import effective, gates_of
from mita.rules.own_tasks import BULK_TASK

APP = "MODULE:APP"  # in a command: the app of the user


class ReasonCode(StrEnum):
    """What kind of reason it is, for programs."""

    RUNNING = "running"
    ASKED = "asked"
    TIMED_OUT = "timed out"
    LEASE_OVER = "lease over"
    DUE = "due"
    SLEEPS = "sleeps"
    WAITS_FOR_SIGNAL = "waits for signal"
    WAITS_FOR_CHILD = "waits for child"
    WAITS_FOR_STEPS = "waits for steps"
    STEP_GONE = "step gone"
    STEP_FAILED = "step failed"
    EXPIRED = "expired"
    PAST_DEADLINE = "past deadline"
    SLOWED = "slowed"
    KEY_HELD = "key held"
    KEY_UNAVAILABLE = "key unavailable"
    KEY_FREE = "key free"
    RATE_LIMITED = "rate limited"
    QUEUE_LIMITED = "queue limited"
    PAUSED = "queue paused"
    NO_WORKER = "no worker"
    TASK_UNKNOWN = "task unknown"
    ENCRYPTED = "encrypted"
    BUSY = "workers busy"
    NEXT = "next"
    CLOCK = "clock"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TWIN = "twin"
    REPEAT_PAUSED = "repeat paused"
    IN_OUTBOX = "in outbox"
    PARKED = "parked"


class Reason(Struct, frozen=True):
    """One reason in words (`text`), what to do about it (`remedy`; empty: nothing), and the facts
    behind it, for programs (`evidence`).

    If a command helps, the remedy ends with it, ready to be pasted, and `command` has its words
    without the first one, `mita`. The word `APP` in it stands for the user's `MODULE:APP`."""

    code: ReasonCode
    text: str
    remedy: str = ""
    evidence: dict[str, Any] = {}
    command: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.text} ({self.remedy})" if self.remedy else self.text


def advise(advice: str, *command: str) -> dict[str, Any]:
    """The fields `remedy` and `command` of a reason."""
    return {"remedy": f"{advice}: {shell_command(('mita', *command))}", "command": command}


class NearStep(Struct, frozen=True):
    """A step of a flow that has not ended, or has not told so: its number, its id, and how it is
    shown (None: it was deleted). `reason` is why it does not run; `added` is the id of the steps
    that it has added to the flow, if the flow waits for those."""

    number: int
    id: str
    task: str
    state: DisplayState | None
    reason: Reason | None = None
    added: str | None = None

    @property
    def name(self) -> str:
        """`step 7 (resize)`."""
        return f"step {self.number} ({self.task})" if self.task else f"step {self.number}"


class FlowWait(Struct, frozen=True):
    """What a job of a flow waits for: `pending` of `total` steps, of which `first` are some
    (`is_exact`: no more than `pending`). `near` are the nearest steps that do not wait for others,
    with their reasons. `patrol` is when the flow looks after its steps next."""

    flow_name: str
    total: int
    first: tuple[NearStep, ...]
    pending: int
    is_exact: bool = True
    near: tuple[NearStep, ...] = ()
    patrol: Moment | None = None


class FlowCause(Struct, frozen=True):
    """A step that failed or was cancelled, because of which others were cancelled. `failed` is how
    many steps failed beside it, itself included."""

    flow: str
    id: str
    number: int
    task: str
    state: State
    error: str = ""
    failed: int = 0


class Evidence(Struct, frozen=True, kw_only=True):
    """What a store knows about one job and what may keep it from running.

    `ahead` is how many jobs go before it. `keys` is what is known of its keys. `twin` is the id of
    another job that has its unique key now, `repeat` the repeat that made it. `values` are its once
    values (`rules.durable`). `children` is why the child jobs do not run that it waits for, by id.
    `flow` is what a job of a flow waits for, `causes` the steps because
    of which it was cancelled or failed. Only what the state of the job needs is filled in."""

    job: Job
    now: Moment
    events: Sequence[TimelineEntry] = ()
    retry: Retry = Retry()
    timeout: float | None = None
    queues: Sequence[QueueView] = ()
    ahead: int | None = None
    keys: Sequence[ResourceView] = ()
    workers: Sequence[WorkerView] = ()
    twin: str | None = None
    repeat: Repeat | None = None
    values: Mapping[str, bytes] = {}
    children: Mapping[str, Reason] = {}
    flow: FlowWait | None = None
    causes: Sequence[FlowCause] = ()

    @property
    def paused(self) -> Moment | None:
        """Since when its queue has been paused; None if it is not."""
        return None if self.queue is None else self.queue.paused

    @property
    def queue(self) -> QueueView | None:
        """Its queue."""
        return next((view for view in self.queues if view.name == self.job.queue), None)

    @property
    def gate(self) -> Gate | None:
        """The gate that matters, as it is in force: the one at which it waits, else the first that
        is not open, else the first of all. None for a job without keys."""
        gates = [effective(gate, self.view(gate.key).limit) for gate in gates_of(self.job)]
        waits_at = [gate for gate in gates if gate.key == self.job.blocked_at]
        shut = [gate for gate in gates if not self._is_open(gate)]
        return next(iter([*waits_at, *shut, *gates]), None)

    def _is_open(self, gate: Gate) -> bool:
        view = self.view(gate.key)
        closed = max(view.held_until or 0, view.next_start or 0) > self.now
        return not closed and (gate.limit is None or len(view.holders) < gate.limit)

    def view(self, key: str) -> ResourceView:
        """What is known of one of its keys."""
        nothing = ResourceView(queue=self.job.queue, key=key)
        return next((view for view in self.keys if view.key == key), nothing)

    @property
    def knowing_workers(self) -> list[WorkerView]:
        """Workers of this queue that know its task."""
        if self.job.task == BULK_TASK:  # every worker knows it
            return self.serving_workers
        return [worker for worker in self.serving_workers if self.job.task in worker.tasks]

    @property
    def serving_workers(self) -> list[WorkerView]:
        """Workers of this queue."""
        return [worker for worker in self.workers if _serves(worker, self.job.queue)]

    @property
    def full(self) -> bool:
        """Whether no worker of this queue has a free slot: all of them reported so in their last
        heartbeats, or the store counts as many running jobs as there are slots. The count is newer
        than the heartbeats, but it does not include threads."""
        if all(worker.full or worker.running >= worker.slots for worker in self.serving_workers):
            return True
        shared = [
            view
            for view in self.queues
            if any(_serves(worker, view.name) for worker in self.serving_workers)
        ]
        sharing = [
            worker for worker in self.workers if any(_serves(worker, view.name) for view in shared)
        ]
        return sum(view.running for view in shared) >= sum(worker.slots for worker in sharing)

    def worker(self, id: str | None) -> str:
        """The worker with this id, in words: its name and process if it is alive."""
        named = [
            f"{worker.name} (pid {worker.pid} on {worker.host})"
            for worker in self.workers
            if worker.id == id
        ]
        return f"worker {named[0] if named else id or 'unknown'}"

    def ago(self, moment: Moment) -> str:
        """`09:00:00 UTC, 4 s ago`."""
        return f"{clock(moment, self.now)}, {span(self.now - moment)} ago"


def _serves(worker: WorkerView, queue: str) -> bool:
    """Whether the worker serves the queue. A worker without a list of queues serves all."""
    return not worker.queues or queue in worker.queues


def in_brackets(note: str) -> str:
    """The note of a timeline entry, to be added to a sentence; empty if it says nothing new."""
    return f" ({note})" if note and note not in (BY_HANDLER, OUTSIDE) else ""
