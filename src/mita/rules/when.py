"""From what people say about time to a `When`."""

import math
from datetime import datetime, timedelta

from mita.errors import UsageError
from mita.model.time import SECOND, Moment, Wait, When

LONGEST_WAIT = 100 * 366 * 24 * 3600  # seconds; further ahead is a mistake in the unit


def when(*, at: datetime | None = None, after: float | timedelta | None = None, named: str = "at") -> When:
    """Exactly one of the two. `named` is what the caller calls the moment."""
    if (at is None) == (after is None):
        raise UsageError(f"say either {named}=<a moment> or after=<a wait>, and not both")
    return When(at=moment(at, named)) if at is not None else When(wait("after", after))


def moment(at: datetime, named: str = "at") -> Moment:
    """Rounded up to the millisecond: never early."""
    if not isinstance(at, datetime):
        raise UsageError(f"{named}={at!r} is not a datetime; for a wait in seconds use after=")
    if at.tzinfo is None or at.utcoffset() is None:
        raise UsageError(f"{named}={at!r} has no time zone: write for example datetime.now(UTC) or .replace(tzinfo=UTC)")
    return math.ceil(at.timestamp() * SECOND)


def wait(what: str, length: float | timedelta | None) -> Wait:
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or math.isnan(seconds):
        raise UsageError(f"{what}={length!r} is not a wait: give seconds or a timedelta")
    if seconds < 0:
        raise UsageError(f"{what}={length!r} is negative: a wait is 0 (now) or more")
    if seconds > LONGEST_WAIT:
        raise UsageError(f"{what}={length!r} is more than a hundred years ahead: waits are given in seconds")
    return math.ceil(seconds * SECOND)
