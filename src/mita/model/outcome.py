"""How a run ended, what becomes of its job, and what people may ask of a job from outside."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct

from .job import Claim, State
from .time import Moment, Wait, When

# --------------------------------------------------------------- endings: what a run says of itself


class Returned(Struct, frozen=True, tag=True, gc=False):
    """The handler gave back a value (packed)."""

    result: bytes


class Raised(Struct, frozen=True, tag=True):
    """The handler raised. `final`: trying again is pointless. `wait`: what the task's own backoff
    function asked for."""

    error: str
    final: bool = False
    wait: Wait | None = None


class TimedOut(Struct, frozen=True, tag=True):
    """The handler ran past its time-out."""

    seconds: float


class Rescheduled(Struct, frozen=True, tag=True):
    """The handler asked to be run again at another time."""

    when: When
    reason: str = ""


class Refused(Struct, frozen=True, tag=True):
    """The handler found its resource unavailable until then, for every job of the key."""

    when: When
    reason: str = ""


# why a run was interrupted
SHUT_DOWN = "the worker shut down"
STORE_AWAY = "the store was unreachable"


class Interrupted(Struct, frozen=True, tag=True):
    """The worker is going away, or had no store for too long. A job that had not `started` was only
    held for a moment: nothing is counted."""

    started: bool
    reason: str = SHUT_DOWN


class Lost(Struct, frozen=True, tag=True):
    """The lease ran out: the worker that had the job died, or was cut off."""


class Died(Struct, frozen=True, tag=True):
    """The process that the handler ran in died under it; its worker lives."""

    reason: str


class Stopped(Struct, frozen=True, tag=True):
    """A person cancelled the job while it ran, and the run obeyed."""


class Unreadable(Struct, frozen=True, tag=True):
    """The arguments in the store cannot be decoded."""

    error: str


class Unknown(Struct, frozen=True, tag=True):
    """No task of this name is registered with this worker."""


Ending: TypeAlias = (
    Returned
    | Raised
    | TimedOut
    | Rescheduled
    | Refused
    | Interrupted
    | Lost
    | Died
    | Stopped
    | Unreadable
    | Unknown
)

# ----------------------------------------------------- verdicts: what a store is told to write down


class Counter(StrEnum):
    """Separate things happened, so they are counted separately."""

    ATTEMPTS = "attempts"
    RESCHEDULES = "reschedules"
    BUSY = "busy"
    INTERRUPTIONS = "interruptions"
    CRASHES = "crashes"


class TimelineKind(StrEnum):
    """What a line of a job's timeline says. `NONE`: no line is written."""

    NONE = ""
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    CRASHED = "crashed"
    FAILED = "failed"
    FOLDED = "folded"  # the first line of a long timeline: it counts the lines before it by kind
    INTERRUPTED = "interrupted"
    QUEUED = "queued"
    REPLACED = "replaced"
    RESCHEDULED = "rescheduled"
    RETRIED = "retried"
    REVIVED = "revived"
    SKIPPED = "skipped"
    SUCCEEDED = "succeeded"
    UNAVAILABLE = "unavailable"
    UNREADABLE = "unreadable"  # counted in a `folded` line in place of a line that cannot be read


class Verdict(Struct, frozen=True, kw_only=True, gc=False):
    """What becomes of a job, ready to be applied as it stands: a store adds nothing to it but the
    moment.

    `when`: the new due time of a job that goes back to the queue; None keeps the old one. `error`:
    None keeps the last one. `keep`: how long a terminal job stays; 0 forgets it at once. `hold`:
    until then nobody with this job's resource key runs. `stranded`: the worker did not know the
    task. `event` and `note` are the line in the job's timeline; no event, no line (the happy path
    writes none). `failure` is the error as that line keeps it, cut to `rules.failures.LONGEST`
    bytes; `worker` is whom the line names, None for the one that has the job."""

    state: State
    when: When | None = None
    counts: Counter | None = None
    result: bytes | None = None
    error: str | None = None
    keep: Wait = 0
    hold: When | None = None
    stranded: bool = False
    event: TimelineKind = TimelineKind.NONE
    note: str = ""
    failure: str = ""
    worker: str | None = None

    @property
    def is_plain_success(self) -> bool:
        """Whether the job succeeded and there is nothing to write but its result: no timeline
        entry, no counter, no error. Stores settle such jobs in bulk."""
        return (
            self.state is State.SUCCEEDED
            and self.result is not None
            and not self.event
            and self.counts is None
            and self.error is None
            and self.hold is None
            and not self.stranded
        )


class Start(Struct, frozen=True, gc=False):
    """What runs have in common that began at one moment, of one task in one queue: also how often
    each had failed before, and how many seconds its claim had `waited` in the worker."""

    task: str
    queue: str
    attempts: int
    waited: float


class Settlement(Struct, frozen=True, gc=False):
    """One claim put down. Stores look no further than the verdict; the rest is for whoever watches:
    how many `seconds` the run took, whether it had been `told` to stop (then it ends as cancelled,
    whatever it came to), and its `start`, if nobody has been told of that yet."""

    claim: Claim
    verdict: Verdict
    seconds: float = 0.0
    told: bool = False
    start: Start | None = None


class Held(StrEnum):
    """The answer to a heartbeat, for one claim."""

    HELD = "held"
    LOST = "lost"
    CANCEL = "cancel"


class Busy(Struct, frozen=True):
    """A job that found its resource key taken. `ended`: it did not wish to wait, and is
    cancelled."""

    id: str
    task: str
    queue: str
    ended: bool = False


class ClaimResult(Struct, frozen=True):
    """One turn of a worker: which settlements took (False: the token was stale), what it holds now,
    and `again`, the wait after which there may be more. None: nothing is scheduled, a wake-up will
    tell. `busy` are the jobs that were met and sent away from their keys."""

    took: list[bool]
    claims: list[Claim]
    again: Wait | None = None
    busy: Sequence[Busy] = ()


# ---------------------------------------------------------------- changes: what a person may ask


# who moved a job, when nobody gave a reason
BY_HANDLER = "by its handler"
OUTSIDE = "from outside"


class RescheduleJob(Struct, frozen=True, tag=True):
    """Run at another time. A running job finishes its run first and then goes back to the queue. A
    failed or cancelled job is revived for that time. `note` says who or what asked, for the
    timeline."""

    when: When
    note: str = OUTSIDE


class CancelJob(Struct, frozen=True, tag=True):
    """Do not run any more. A running job is told, and ends as cancelled."""

    keep: Wait
    reason: str = ""


class RetryJob(Struct, frozen=True, tag=True):
    """A failed or cancelled job runs again, with its counters at zero. `note` says who asked, for
    the timeline."""

    when: When
    note: str = ""


class PrioritiseJob(Struct, frozen=True, tag=True):
    """Another priority from now on."""

    priority: int


class DeleteJob(Struct, frozen=True, tag=True):
    """Forget a job that has ended, with its timeline, memos and unique key."""


Change: TypeAlias = RescheduleJob | CancelJob | RetryJob | PrioritiseJob | DeleteJob


class Answer(StrEnum):
    """What an amend came to."""

    DONE = "done"
    ASKED = "asked"  # the job is running: it takes effect when the run ends
    TOO_LATE = "too late"  # the job's state does not allow it (any more)
    TAKEN = "taken"  # reviving it would make two jobs with one unique key
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
    """How far a run has come, in its own words (packed)."""

    claim: Claim
    report: bytes
