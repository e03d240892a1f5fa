"""What a handler can raise beside errors: run me later, never again, or no job of this key now;
and what ends the run of a handler that sleeps or waits."""

from datetime import datetime, timedelta

from mita.model.time import When
from mita.rules.text import note
from mita.rules.when import when


class Reschedule(Exception):
    """Run this job again at another time: `at` an aware datetime, or `after` seconds (or a
    timedelta). Raise or return it; it does not count as an attempt. The `reason` is stored in the
    job's timeline. Raises `UsageError` unless exactly one of `at` and `after` is given."""

    def __init__(
        self,
        *,
        at: datetime | None = None,
        after: float | timedelta | None = None,
        reason: str = "",
    ) -> None:
        self.when: When = when(at=at, after=after)
        self.reason = note(reason)
        super().__init__(reason or "asked to run at another time")


class Abort(Exception):
    """This job cannot succeed: fail it now, without the retries that are left. The `reason` is
    stored as its error."""

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "aborted by its handler")


class Unavailable(Exception):
    """What this job needs is unavailable `until` then (an aware datetime), or for `after`
    seconds (or a timedelta): this job and all other jobs of its resource key wait. The `reason`
    is stored in the job's timeline. Raises `UsageError` unless exactly one of `until` and
    `after` is given."""

    def __init__(
        self,
        *,
        until: datetime | None = None,
        after: float | timedelta | None = None,
        reason: str = "",
    ) -> None:
        self.when: When = when(at=until, after=after, named="until")
        self.reason = note(reason)
        super().__init__(reason or "its resource is not available")


class Suspend(BaseException):
    """Ends a run whose handler sleeps or waits. It is no `Exception`, so that `except Exception` in
    a handler does not stop it."""

    def __init__(self, when: When, waits: str | None = None) -> None:
        self.when, self.waits = when, waits
        what = "sleeps" if waits is None else f"waits for the signal {waits!r}"
        super().__init__(f"the handler {what}: this ends its run; do not catch it")
