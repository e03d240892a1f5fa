"""What becomes of a job after a run, and what people may ask of a job."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from .flow import AddedSteps, Arrival
from .job import Claim, State
from .time import Moment, Wait, When

# ----------------------------------------------------- verdicts: what a store writes after a run


class Counter(StrEnum):
    """What is counted for a job. Each of these has its own counter."""

    ATTEMPTS = "attempts"
    RESCHEDULES = "reschedules"
    BUSY = "busy"
    INTERRUPTIONS = "interruptions"
    CRASHES = "crashes"


class TimelineKind(StrEnum):
    """What a line of a job's timeline says. `NONE`: no line is written."""

    NONE = ""
    AMENDED = "amended"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    CRASHED = "crashed"
    DEBOUNCED = "debounced"
    EXPIRED = "expired"
    FAILED = "failed"
    FOLDED = "folded"  # the first line of a long timeline: it counts the lines before it by kind
    INTERRUPTED = "interrupted"
    LOCKED = "locked"  # it is encrypted, and the worker does not have its key
    QUEUED = "queued"
    REPLACED = "replaced"
    RESCHEDULED = "rescheduled"
    RETRIED = "retried"
    REVIVED = "revived"
    SIGNALLED = "signalled"
    SKIPPED = "skipped"
    SLEEPING = "sleeping"
    SUCCEEDED = "succeeded"
    UNAVAILABLE = "unavailable"
    WAITING = "waiting"
    UNREADABLE = "unreadable"  # counted in a `folded` line in place of a line that cannot be read


class Verdict(Struct, frozen=True, kw_only=True, gc=False):
    """What becomes of a job after a run. A store writes it as it is, and adds only the time.

    `when`: the new due time of a job that goes back to the queue; None keeps the old one. `error`:
    None keeps the last one. `keep`: how long a terminal job is kept; 0 deletes it at once. `hold`:
    until then no job with this resource key starts. `stranded`: the worker did not know the task.
    `unstarted`: the handler was not started; the tokens of its rates are given back.
    `event` and `note` are the line in the job's timeline; without an event there is no line (a
    success writes none). `failure` is the error in that line, cut by `rules.failures`.
    `worker` is the worker that the line names; None: the one that has the job.
    `waits`: the job waits for a signal of this name, until `when`. If the signal has come already,
    the job is due at once.
    `told`: the jobs that wait for this one know that it succeeded. A cancel or a reschedule that
    was asked while it ran comes too late.
    `group`: the fingerprint of a failure (`rules.fingerprint`), if the job failed for good.
    `is_plain_success`: the job succeeded, and there is nothing to write but its result
    (`rules.judge.success`). Stores settle such jobs in bulk."""

    state: State
    when: When | None = None
    counts: Counter | None = None
    result: bytes | None = None
    error: str | None = None
    keep: Wait = 0
    hold: When | None = None
    stranded: bool = False
    unstarted: bool = False
    event: TimelineKind = TimelineKind.NONE
    note: str = ""
    failure: str = ""
    worker: str | None = None
    waits: str | None = None
    told: bool = False
    group: str | None = None
    is_plain_success: bool = False


class Start(Struct, frozen=True, gc=False):
    """What runs of one task in one queue share if they started at the same time: how often each had
    failed before, and how many seconds its claim had `waited` in the worker."""

    task: str
    queue: str
    attempts: int
    waited: float


class Settlement(Struct, frozen=True, gc=False):
    """The result of one claim. A store reads only the verdict, and what the job tells others in the
    same atomic operation (`arrivals`, see `Store.settle_and_claim`). The rest is for events: how
    many `seconds` the run took, `was_cancelled` (then the job ends as cancelled, whatever the
    verdict is), and its `start`, if no event has reported that yet; and for flows: the steps that
    the run has `added`, and its `span`, if runs are traced. `waited` is how many seconds the claim
    had waited in the worker when the run started."""

    claim: Claim
    verdict: Verdict
    seconds: float = 0.0
    was_cancelled: bool = False
    start: Start | None = None
    waited: float = 0.0
    added: AddedSteps | None = None
    span: bytes = b""
    arrivals: tuple[Arrival, ...] = ()


class Held(StrEnum):
    """The answer to a heartbeat, for one claim."""

    HELD = "held"
    LOST = "lost"
    CANCEL = "cancel"


class Busy(Struct, frozen=True):
    """A job that could not pass one of its gates. `ended`: it does not wait for the key, and was
    cancelled. `at_rate`: the key was free, and its rate had no token. `replaced`: it had waited for
    the key, and was cancelled because a newer job waits for it now."""

    id: str
    task: str
    queue: str
    ended: bool = False
    at_rate: bool = False
    replaced: bool = False


class ClaimResult(Struct, frozen=True):
    """The answer to one call of `settle_and_claim`: which settlements were written (False: the
    token was stale), the new claims, and `again`, the delay after which a claim may find more.
    None: nothing is scheduled, and the store will notify. `busy` are the jobs whose resource key
    was taken. `untold` are the arrivals of settlements that were not stored: their receiver is
    gone, has succeeded, or was told before."""

    took: list[bool]
    claims: list[Claim]
    again: Wait | None = None
    busy: Sequence[Busy] = ()
    untold: Sequence[Arrival] = ()


# ---------------------------------------------------------------- changes: what a person may ask


# who rescheduled a job, if no reason was given
BY_HANDLER = "by its handler"
OUTSIDE = "from outside"


class RescheduleJob(Struct, frozen=True, tag=True):
    """Run the job at another time. A running job first ends its run. A failed or cancelled job is
    retried at that time. `note` says who asked, for the timeline."""

    when: When
    note: str = OUTSIDE


class CancelJob(Struct, frozen=True, tag=True):
    """Do not run the job any more. A running job is asked to stop, and ends as cancelled."""

    keep: Wait
    reason: str = ""


class RetryJob(Struct, frozen=True, tag=True):
    """Run a failed or cancelled job again, with its counters at zero. `note` says who asked, for
    the timeline."""

    when: When
    note: str = ""


class PrioritiseJob(Struct, frozen=True, tag=True):
    """Give the job another priority."""

    priority: int


class DeleteJob(Struct, frozen=True, tag=True):
    """Delete a job that has ended, with its timeline, its values of `once` and its unique key."""


class SignalJob(Struct, frozen=True, tag=True):
    """Give the job a signal: a value (packed) under a name. A job that waits for it is due at once.
    Otherwise the value is kept until the handler asks for it. A name is signalled once."""

    name: str
    value: bytes


class RewriteJob(Struct, frozen=True, tag=True):
    """Give a job that does not run, and has not succeeded, other arguments (packed). Its keys, its
    state and its counters stay. `note` is for the timeline."""

    payload: bytes
    note: str = ""


Change: TypeAlias = (
    RescheduleJob | CancelJob | RetryJob | PrioritiseJob | DeleteJob | SignalJob | RewriteJob
)


class Answer(StrEnum):
    """What became of a change that a person asked for."""

    DONE = "done"
    ASKED = "asked"  # the job is running: it takes effect when the run ends
    TOO_LATE = "too late"  # the job's state does not allow it (any more)
    TAKEN = "taken"  # reviving it would make two jobs with one unique key; or signalled before
    UNREADABLE = "unreadable"  # its record cannot be read, so it cannot run again
    UNKNOWN = "unknown"  # no such job


class TimelineEntry(Struct, frozen=True):
    """One line of a job's timeline. `kind` is a `TimelineKind`; it is read as text, because a newer
    version of Mita may have written a kind that this one does not know. The line of a failed run
    also has the error and the time of its start."""

    at: Moment
    kind: str
    note: str = ""
    worker: str | None = None
    error: str = ""
    started: Moment | None = None


class Progress(Struct, frozen=True):
    """The progress that a run reported (packed)."""

    claim: Claim
    report: bytes
