"""When a repeat fires: `Every` interval, or by a `Cron` line; and what happens to windows that were
missed."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from mita.errors import UsageError

from .gate import Gate
from .job import DEFAULT_PRIORITY, NORMAL_WEIGHT_THOUSANDTHS, WhenBusy
from .time import LONGEST, SECOND, Moment, Wait

SHORTEST_INTERVAL: Wait = 10
CATCH_UP_JOBS = 10_000  # windows that one catch-up makes up for


class Every(Struct, frozen=True, tag=True):
    """An interval: `seconds`, or a timedelta, from one fire to the next. It is measured from fire
    to fire, so a late fire does not delay the next ones. Raises `UsageError` if it is shorter than
    10 milliseconds."""

    seconds: float

    if TYPE_CHECKING:

        def __init__(self, seconds: float | timedelta) -> None: ...

    def __post_init__(self) -> None:
        given: Any = self.seconds
        if isinstance(given, timedelta):
            force_setattr(self, "seconds", given.total_seconds())
        if not isinstance(self.seconds, int | float) or isinstance(self.seconds, bool):
            raise UsageError(
                f"Every({self.seconds!r}): give seconds as a number, or a timedelta, "
                "Every(timedelta(minutes=5))"
            )
        # not a number is not within bounds either
        if not SHORTEST_INTERVAL <= self.seconds * SECOND <= LONGEST:
            raise UsageError(
                f"Every({self.seconds!r}): an interval must be at least "
                f"{SHORTEST_INTERVAL / SECOND} seconds, and at most a hundred years"
            )

    @property
    def interval(self) -> Wait:
        """The time from one fire to the next, in milliseconds."""
        return round(self.seconds * SECOND)


class Cron(Struct, frozen=True, tag=True):
    """A cron line. The `expression` has 5 fields, or 6 with seconds first, or is `@hourly`,
    `@daily`, `@weekly`, `@monthly` or `@yearly`. `tz` is its time zone: an IANA name, or an offset
    like `+02:00`."""

    expression: str
    tz: str = "UTC"


Pattern: TypeAlias = Every | Cron
"""When a repeat fires."""


class All(Struct, frozen=True):
    """Fire missed windows one by one, oldest first, at most `max_catchup` of them."""

    max_catchup: int = 100

    def __post_init__(self) -> None:
        if not _is_whole(self.max_catchup) or self.max_catchup < 1:
            raise UsageError(
                f"All(max_catchup={self.max_catchup!r}): catch up at least 1, or use missed='skip'"
            )


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


class JobTemplate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The job that a repeat makes, without its id and its time."""

    task: str
    queue: str
    payload: bytes
    options: bytes = b""
    priority: int = DEFAULT_PRIORITY
    unique: str | None = None
    unique_for: Wait = 0
    resource: str | None = None
    limit: int = 1
    when_busy: WhenBusy = WhenBusy.WAIT
    gates: tuple[Gate, ...] = ()
    fair: str | None = None
    weight: int = NORMAL_WEIGHT_THOUSANDTHS
    tags: tuple[str, ...] = ()


# what a fire does while the job of an earlier fire has not ended
Overlap: TypeAlias = Literal["allow", "skip", "queue", "cancel"]


class RepeatSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that a person decided about a repeat. Packed, it is the `spec` of a stored
    `Repeat`.

    `jitter`: each job is due up to this much later than its fire time. `pause_after`: after so many
    failures in a row the repeat is paused."""

    pattern: Pattern
    job: JobTemplate
    start_after: Moment | None = None
    end_before: Moment | None = None
    limit: int | None = None
    missed: Literal["skip", "once"] | All = "skip"
    overlap: Overlap = "allow"
    jitter: Wait = 0
    pause_after: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and (not _is_whole(self.limit) or self.limit < 1):
            raise UsageError(
                f"limit={self.limit!r}: a repeat fires at least once; remove it to stop it"
            )
        if (
            self.start_after is not None
            and self.end_before is not None
            and self.end_before <= self.start_after
        ):
            raise UsageError("end_before must come after start_after, or the repeat never fires")
        if not isinstance(self.missed, All) and self.missed not in ("skip", "once"):
            raise UsageError(f"missed={self.missed!r}: use 'skip', 'once' or All(max_catchup)")
        if self.jitter < 0:
            raise UsageError(f"jitter={self.jitter} ms is negative: give 0 or more")
        if self.pause_after is not None and (
            not _is_whole(self.pause_after) or self.pause_after < 1
        ):
            raise UsageError(
                f"pause_after={self.pause_after!r}: give the number of failures in a row after "
                "which the repeat is paused, 1 or more; None never pauses it"
            )
        self._check_overlap()

    def _check_overlap(self) -> None:
        if self.overlap not in get_args(Overlap):
            raise UsageError(
                f"overlap={self.overlap!r}: use {', '.join(map(repr, get_args(Overlap)))}"
            )
        if self.overlap == "skip" and self.job.unique is not None:
            raise UsageError(
                "overlap='skip' and a unique key of its own exclude each other: choose one"
            )
        waits = self.job.when_busy is WhenBusy.WAIT or self.job.resource is None
        if self.overlap in ("queue", "cancel") and not waits:
            raise UsageError(
                f"overlap={self.overlap!r} and when_busy='{self.job.when_busy.value}' of task "
                f"{self.job.task!r} contradict each other: a job waits for its turn, or it is "
                "dropped; use task.options(when_busy='wait'), or overlap='allow' or 'skip'"
            )
        if self.overlap == "cancel" and isinstance(self.missed, All):
            raise UsageError(
                "overlap='cancel' and missed=All(…) contradict each other: the newest fire would "
                "cancel all others at once; use missed='once' or 'skip', or overlap='queue'"
            )
