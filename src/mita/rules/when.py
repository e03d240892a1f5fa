"""From a datetime or a delay that a user gives to a `When`."""

import math
from datetime import UTC, datetime, timedelta

from mita.errors import UsageError
from mita.model.time import LONGEST, NOW, SECOND, Moment, Wait, When

LONGEST_WAIT_S = LONGEST // SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def when(
    *, at: datetime | None = None, after: float | timedelta | None = None, named: str = "at"
) -> When:
    """Returns the `When` of `at` or `after`. Raises UsageError unless exactly one is given. `named`
    is what the caller calls the point in time."""
    if (at is None) == (after is None):
        raise UsageError(f"say either {named}=<a moment> or after=<a wait>, and not both")
    return When(at=moment(at, named)) if at is not None else When(wait("after", after))


def when_or_now(*, at: datetime | None = None, after: float | timedelta | None = None) -> When:
    """Returns the `When` of `at` or `after`; now if neither is given."""
    return NOW if at is None and after is None else when(at=at, after=after)


def moment(at: datetime, named: str = "at") -> Moment:
    """Returns a datetime in milliseconds, rounded up: never early."""
    if not isinstance(at, datetime):
        raise UsageError(f"{named}={at!r} is not a datetime; for a wait in seconds use after=")
    if at.tzinfo is None or at.utcoffset() is None:
        raise UsageError(
            f"{named}={at!r} has no time zone: write for example datetime.now(UTC) or "
            ".replace(tzinfo=UTC)"
        )
    # with integers: a float would sometimes be a millisecond off
    return -((_EPOCH - at) // _MILLISECOND)


def wait(what: str, length: float | timedelta | None) -> Wait:
    """Returns a delay in milliseconds. Raises UsageError if it is negative or too long."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds):
        raise UsageError(f"{what}={length!r} is not a wait: give seconds or a timedelta")
    if seconds < 0:
        raise UsageError(f"{what}={length!r} is negative: a wait is 0 (now) or more")
    if seconds > LONGEST_WAIT_S:
        raise UsageError(
            f"{what}={length!r} is more than a hundred years ahead: waits are given in seconds"
        )
    # 65.534 s are 65,534 ms, whatever binary fractions make of them
    return math.ceil(round(seconds * SECOND, 3))
