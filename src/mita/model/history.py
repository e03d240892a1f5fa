"""How many runs ended, by queue and task: per minute and per hour."""

from datetime import datetime

from msgspec import Struct

from .time import DAY, HOUR, MINUTE, Moment, Wait

MINUTES_KEPT_MS: Wait = DAY  # how long counts by the minute are kept
HOURS_KEPT_MS: Wait = 90 * DAY  # how long counts by the hour are kept
SPANS_KEPT_MS: dict[Wait, Wait] = {MINUTE: MINUTES_KEPT_MS, HOUR: HOURS_KEPT_MS}
MOST_PAIRS = 1000  # of queue and task that a worker names in an hour


class RunCounts(Struct, frozen=True, kw_only=True):
    """How the runs of one task in one queue ended. `retried`: the run failed, or its worker died,
    and the job runs again. `rescheduled`: the job runs again for another reason. `run_ms` is how
    long the runs took together, `wait_ms` how long their jobs were due before they started. An
    empty queue and task: the sum of all pairs beyond the first `MOST_PAIRS`."""

    queue: str
    task: str
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    rescheduled: int = 0
    cancelled: int = 0
    run_ms: int = 0
    wait_ms: int = 0


class StoredCounts(RunCounts, frozen=True, kw_only=True):
    """The counts of one minute or one hour, which began `at` this point in time."""

    at: Moment


class HistoryPoint(Struct, frozen=True, kw_only=True):
    """How the runs of one `task` in one `queue` ended in one minute or one hour, which began `at`
    this time (UTC).

    `succeeded`, `failed` and `cancelled`: the job has ended with this run. `retried`: the run
    failed, or its worker died, and the job runs again. `rescheduled`: the job runs again for
    another reason, for example because the handler asked for it. `run_seconds` is how long these
    runs took together, `wait_seconds` how long their jobs were due before they started. `queue` and
    `task` are empty for runs that were counted together, because a worker had too many pairs of
    queue and task."""

    at: datetime
    queue: str
    task: str
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    rescheduled: int = 0
    cancelled: int = 0
    run_seconds: float = 0.0
    wait_seconds: float = 0.0

    @property
    def runs(self) -> int:
        """How many runs ended."""
        return self.succeeded + self.failed + self.retried + self.rescheduled + self.cancelled
