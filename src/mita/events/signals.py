"""What the engine and the client report, as they have it at hand: one signal for a whole batch of
jobs, so that a job costs next to nothing. `events.batches` makes event batches of a signal, and
single events are made only where they are read."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from mita.model.event import EventBatch
from mita.model.job import Claim, NewJob, Receipt
from mita.model.outcome import Answer, Busy, Change, Settlement
from mita.model.repeat import Firing
from mita.model.time import Moment


class Enqueued(Struct, frozen=True):
    """Jobs that were enqueued. A receipt says whether its job was created, or whether an earlier
    job has the same unique key. `are_children`: a handler started them with `job.run`."""

    jobs: Sequence[NewJob]
    receipts: Sequence[Receipt]
    at: Moment
    are_children: bool = False


class StartedRun(Struct, frozen=True, gc=False):
    """A run that started, and how many seconds its claim waited for a slot."""

    claim: Claim
    waited: float


class RunsStarted(Struct):
    """Runs that started. `batches_of` keeps its batches in `batched`, and in `timed` the runs of
    jobs that were given a time or waited at a limit."""

    runs: Sequence[StartedRun]
    worker: str
    at: Moment
    batched: list[EventBatch] | None = None
    timed: Sequence[StartedRun] = ()


class RunsSettled(Struct):
    """Runs that were settled; `took[i]` is False if the token of settlement `i` was stale. A
    settlement with a `start` is of a run that no `RunsStarted` reported. `batched` and `timed` are
    as above."""

    settlements: Sequence[Settlement]
    took: Sequence[bool]
    worker: str
    at: Moment
    batched: list[EventBatch] | None = None
    timed: Sequence[StartedRun] = ()


class SettlingSoon(Struct, frozen=True):
    """What will be reported if the store settles all of it. Sinks that need its batches make them
    now: its jobs are still in the processor's cache, and are not when the store has answered."""

    signal: RunsSettled


class BusyJobs(Struct, frozen=True):
    """Jobs that could not start because their resource key was busy."""

    jobs: Sequence[Busy]
    at: Moment


class StoreCalled(Struct, frozen=True):
    """One call of a claim loop to the store: how long it took, how many runs it settled, and how
    many jobs it claimed; None if it claimed none on purpose."""

    seconds: float
    settled: int
    claimed: int | None


class FlowStarted(Struct, frozen=True):
    """A flow that was enqueued, with so many `steps`."""

    id: str
    name: str
    steps: int
    queue: str
    at: Moment


class EndedFlow(Struct, frozen=True):
    """What is known of a flow that has ended: its name, how many steps it has, and when it was
    enqueued."""

    name: str
    steps: int
    created: Moment


class Amended(Struct, frozen=True):
    """What a person did to a job. `task` and `queue` are empty if only its id is known. `flow` is
    known of the job of a flow that was cancelled."""

    id: str
    change: Change
    answer: Answer
    at: Moment
    task: str = ""
    queue: str = ""
    flow: EndedFlow | None = None


class Fired(Struct, frozen=True):
    """Repeats that fired; `won[i]` is False if another scheduler fired it first."""

    firings: Sequence[Firing]
    won: Sequence[bool]
    at: Moment


class RepeatPaused(Struct, frozen=True):
    """A repeat that was paused after so many failures in a row (`pause_after`)."""

    key: str
    task: str
    queue: str
    failures: int
    at: Moment


class Locked(Struct, frozen=True):
    """What happened to the lock of the schedulers: `acquired`, `held` (by another one), `lost`,
    `released`."""

    outcome: str


class StoreFailed(Struct, frozen=True):
    """A call to the store failed."""

    operation: str


class Batched(Struct, frozen=True):
    """The batches of a signal, without the arguments and results of its jobs: it may wait for
    long."""

    batches: list[EventBatch]


Signal: TypeAlias = (
    Batched
    | SettlingSoon
    | Enqueued
    | RunsStarted
    | RunsSettled
    | BusyJobs
    | StoreCalled
    | Amended
    | FlowStarted
    | Fired
    | RepeatPaused
    | Locked
    | StoreFailed
)
Emit: TypeAlias = Callable[[Signal], None]


def ignore_signal(_: Signal) -> None:
    """An `Emit` that does nothing."""
