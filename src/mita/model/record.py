"""Jobs and repeats as people see them: decoded, with times as aware datetimes."""

from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from .outcome import Answer
from .pattern import Pattern
from .repeat import RepeatState

WITHHELD = "(withheld: task is secret)"


class DisplayState(StrEnum):
    """A job's state as people see it. A queued job is shown as `waiting` (it has no due time,
    because it waits for other jobs or for a signal), `scheduled` or `ready`."""

    WAITING = "waiting"
    SCHEDULED = "scheduled"
    READY = "ready"
    BLOCKED = "blocked"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ProgressReport(NamedTuple):
    """The progress that a run reported."""

    done: int | float
    total: int | float | None = None
    message: str = ""


class TimelineLine(Struct, frozen=True):
    """One line of a job's timeline."""

    at: datetime
    kind: str
    note: str = ""
    worker: str | None = None


class Failure(Struct, frozen=True):
    """An attempt that failed: the error's `type` with its module, the first line of its message,
    its text as far as it is kept, the worker that ran it, and when. `kind` is what became of the
    job: `retried`, `failed` or `crashed`."""

    type: str
    message: str
    text: str
    kind: str
    ended: datetime
    started: datetime | None = None
    worker: str | None = None


class StepRecord(Struct, frozen=True):
    """A step that is done: when it ended, how many seconds it took, and its result as plain values.
    A value of `job.once` is listed as a step without these times. `value` is None if the task is
    secret, or if it cannot be read."""

    name: str
    ended: datetime | None = None
    seconds: float | None = None
    value: Any = None


class SleepRecord(Struct, frozen=True):
    """A sleep of a handler, and when it ends or ended. None: that cannot be read."""

    name: str
    until: datetime | None = None


class SignalRecord(Struct, frozen=True):
    """A signal that came, with its value as plain values. `timed_out`: it did not come in time, and
    is refused now. `value` is None if the task is secret, or if it cannot be read."""

    name: str
    value: Any = None
    timed_out: bool = False


class WaitRecord(Struct, frozen=True):
    """A signal that a handler waits for. `until` is when the wait times out; None: never."""

    name: str
    until: datetime | None = None


class JobRecord(Struct, frozen=True, kw_only=True):
    """Everything about a job at one point in time.

    `arguments` are plain values by parameter name; None when they cannot be read. Parameters that
    the caller did not pass are missing. `timeline` is complete in the answer to `get`; in a page it
    has only its first and last lines. `failures` are the attempts that failed, oldest first, as far
    back as the timeline goes; a page has none. For a `secret` task there are no arguments, no
    result and no progress message here; `await handle.result()` still returns the result.
    `encrypted` says why this app cannot decrypt its arguments; it is empty if it can.
    `timeout`, `expires` and `deadline` are seconds, as the task or the call gave them. `keys` are
    all its resource keys and the key of its rate, `blocked_at` the one at which it waits, and
    `fair` its group for fair shares. `group` is the group of a failed job (`app.dead_groups`).
    `tags` and `metadata` are what the task or the call gave.

    `steps`, `sleeps` and `signals` are what a durable handler has behind it, and `waits_for` the
    signals that it waits for now. A page has none of these."""

    id: str
    task: str
    queue: str
    state: DisplayState
    priority: int
    due: datetime
    created: datetime
    attempts: int = 0
    reschedules: int = 0
    busy: int = 0
    interruptions: int = 0
    crashes: int = 0
    error: str | None = None
    group: str | None = None
    result: Any = None
    resource: str | None = None
    unique: str | None = None
    repeat: str | None = None
    fire_time: datetime | None = None
    keys: tuple[str, ...] = ()
    blocked_at: str | None = None
    fair: str | None = None
    worker: str | None = None
    started: datetime | None = None
    finished: datetime | None = None
    asked: str | None = None
    progress: ProgressReport | None = None
    arguments: dict[str, Any] | None = None
    secret: bool = False
    encrypted: str = ""
    timeout: float | None = None
    expires: float | None = None
    deadline: float | None = None
    max_reschedules: int | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    timeline: tuple[TimelineLine, ...] = ()
    failures: tuple[Failure, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    sleeps: tuple[SleepRecord, ...] = ()
    signals: tuple[SignalRecord, ...] = ()
    waits_for: tuple[WaitRecord, ...] = ()


class FlowStep(Struct, frozen=True):
    """A step of a flow at one point in time. `state` is None if the step was deleted. `after` are
    the numbers of the steps that it waits for, as pairs of the first and the last of a row.

    `added_by` is the id of the step whose handler has added it (`job.add`); then its number and
    those of `after` count what that step has added. `blocked_at` is the resource key at which it
    waits."""

    number: int
    id: str
    task: str
    queue: str
    state: DisplayState | None
    started: datetime | None = None
    finished: datetime | None = None
    error: str = ""
    after: tuple[tuple[int, int], ...] = ()
    always: bool = False
    added_by: str | None = None
    blocked_at: str | None = None


class StepOutcome(Struct, frozen=True):
    """How a predecessor of a step ended: its number, its task, its state, and the first line of its
    error."""

    number: int
    task: str
    state: DisplayState
    error: str = ""


class FlowRecord(Struct, frozen=True, kw_only=True):
    """A flow at one point in time. It is `running` until all of its steps have ended. `total` is
    how many steps it has, without those that its handlers have added; `ended` and `failed` are how
    many of these have ended, and failed. In a page it has no `steps`, and for a flow of some
    thousand steps there may be more that ended than `ended` says; then `exact` is False."""

    id: str
    name: str
    state: DisplayState
    created: datetime
    total: int
    ended: int = 0
    failed: int = 0
    exact: bool = True
    finished: datetime | None = None
    error: str | None = None
    steps: tuple[FlowStep, ...] = ()


class FlowPage(Struct, frozen=True):
    """Flows, newest first. `after` is the argument that gets the next page; None on the last
    page."""

    flows: tuple[FlowRecord, ...]
    after: str | None = None


class JobPage(Struct, frozen=True):
    """Jobs, newest first. `after` is the argument that gets the next page; None on the last
    page."""

    jobs: tuple[JobRecord, ...]
    after: str | None = None


class BulkResult(Struct, frozen=True):
    """The result of a bulk operation: how many jobs `matched`, and how many gave which answer.
    Without answers nothing was done: no job matched, it was a dry run, or it was not confirmed."""

    matched: int
    answers: dict[Answer, int] = {}

    @property
    def done(self) -> int:
        """How many jobs were changed, or will be when their run ends."""
        return self.answers.get(Answer.DONE, 0) + self.answers.get(Answer.ASKED, 0)


class RepeatRecord(Struct, frozen=True, kw_only=True):
    """A repeat and its current state. `dropped` is how many windows it has left out, because of
    its policy or its limit. `jitter` is in seconds. `failures` is how many of its jobs failed in a
    row; it is counted if `pause_after` is set. A repeat that cannot be read is `parked`, with only
    its key and the reason."""

    key: str
    state: RepeatState
    reason: str = ""
    task: str = ""
    queue: str = ""
    pattern: Pattern | None = None
    words: str = ""
    next: datetime | None = None
    last: datetime | None = None
    count: int = 0
    limit: int | None = None
    start_after: datetime | None = None
    end_before: datetime | None = None
    missed: str = "skip"
    overlap: str = "allow"
    dropped: int = 0
    jitter: float = 0.0
    pause_after: int | None = None
    failures: int = 0


class BackfillResult(Struct, frozen=True):
    """The result of a backfill: the fire times in the range (`windows`), and how many jobs were
    `enqueued`. The others were there already. A dry run enqueues none."""

    key: str
    windows: tuple[datetime, ...]
    enqueued: int = 0
