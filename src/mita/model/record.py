"""What people are shown of a job or a repeat: decoded, with moments as aware datetimes."""

from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from .outcome import Answer
from .pattern import Pattern
from .repeat import RepeatState

WITHHELD = "(withheld: task is secret)"


class DisplayState(StrEnum):
    """A job's state as people see it: `queued` is split by its due time."""

    SCHEDULED = "scheduled"
    READY = "ready"
    BLOCKED = "blocked"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ProgressReport(NamedTuple):
    """How far a run has come, in its own words."""

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
    its whole text as far as it is kept, and which worker ran it when. `kind` is what became of the
    job: `retried`, `failed` or `crashed`."""

    type: str
    message: str
    text: str
    kind: str
    ended: datetime
    started: datetime | None = None
    worker: str | None = None


class JobRecord(Struct, frozen=True, kw_only=True):
    """All that is known of a job at one moment.

    `arguments` are plain values by parameter name, None when they cannot be read; parameters that
    the caller did not pass are not among them. `timeline` is whole in the answer to `get`; in a
    page it has only its first and last lines. `failures` are the attempts that failed, oldest
    first, as far back as the timeline goes; a page has none of them. Of a `secret` task neither
    arguments nor result nor the message of its progress are here; `await handle.result()` still
    gives the result to whoever asks for it in code."""

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
    result: Any = None
    resource: str | None = None
    unique: str | None = None
    repeat: str | None = None
    fire_time: datetime | None = None
    worker: str | None = None
    started: datetime | None = None
    finished: datetime | None = None
    asked: str | None = None
    progress: ProgressReport | None = None
    arguments: dict[str, Any] | None = None
    secret: bool = False
    timeline: tuple[TimelineLine, ...] = ()
    failures: tuple[Failure, ...] = ()


class JobPage(Struct, frozen=True):
    """Jobs, newest first; `after` is what the next page begins behind, None on the last one."""

    jobs: tuple[JobRecord, ...]
    after: str | None = None


class BulkResult(Struct, frozen=True):
    """What became of a request to many jobs: how many `matched`, and how many gave which answer. No
    answers: nothing was asked, because none matched, it was a dry run, or it was not confirmed."""

    matched: int
    answers: dict[Answer, int] = {}

    @property
    def done(self) -> int:
        """How many did what was asked, or do it when their run ends."""
        return self.answers.get(Answer.DONE, 0) + self.answers.get(Answer.ASKED, 0)


class RepeatRecord(Struct, frozen=True, kw_only=True):
    """A repeat and how it stands. `dropped` is how many windows it has passed over, by its policy
    or at its cap. One that cannot be read is `parked`, with nothing but its key and the reason."""

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
