"""Backfill: which fire times of a repeat a range in the past has, and their jobs."""

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import islice

from mita.errors import UsageError
from mita.model.job import NewJob
from mita.model.pattern import Cron, Every, RepeatSpec
from mita.model.repeat import FIRING_JOBS, Repeat
from mita.model.time import MINUTE, Moment, Wait
from mita.rules.display import as_datetime
from mita.rules.schedule import jobs
from mita.rules.schedule.cron import zone
from mita.rules.schedule.fire import JOB_BYTES, MOST_FIRING_BYTES
from mita.rules.schedule.times import between
from mita.rules.when import moment

BACKFILL_JOBS = 10_000  # of one call
# an end this little ahead is now: `datetime.now(UTC)` on a machine whose clock is not the store's
CLOCK_TOLERANCE: Wait = MINUTE


def windows(
    repeat: Repeat, spec: RepeatSpec, start: datetime, end: datetime, now: Moment
) -> list[Moment]:
    """Return the fire times of a repeat from `start` until before `end`. Raises `UsageError` for a
    range that is empty, not over yet, or has too many."""
    tz = zone(spec.pattern.tz) if isinstance(spec.pattern, Cron) else UTC
    first, last = _moment(start, "start", tz), _moment(end, "end", tz)
    if first >= last:
        raise UsageError(
            f"start={start!s} is not before end={end!s}: a backfill takes the fire times from its "
            "start until before its end"
        )
    if first < 0:
        raise UsageError(f"start={start!s} is before 1970: begin the backfill later")
    if last > now + CLOCK_TOLERANCE:
        raise UsageError(
            f"end={end!s} is in the future: a backfill makes jobs for the past, and the repeat "
            f"itself makes those to come; end it at {as_datetime(now):%Y-%m-%dT%H:%M:%SZ} at the "
            "latest"
        )
    times = between(spec, first, min(last, now), _origin(repeat, spec))
    found = list(islice(times, BACKFILL_JOBS))
    if (more := next(times, None)) is not None:
        raise UsageError(
            f"repeat {repeat.key!r} has more than {BACKFILL_JOBS:,} fire times from {start!s} "
            f"until {end!s}, and one backfill makes at most so many jobs: split the range, the "
            f"first part until {as_datetime(more).isoformat()}"
        )
    return found


def batches(key: str, spec: RepeatSpec, times: list[Moment]) -> Iterator[list[NewJob]]:
    """Yield the jobs for these fire times, oldest first, in batches that every store can write."""
    wanted = jobs.backfill_spec(key, spec)
    size = max(1, min(FIRING_JOBS, MOST_FIRING_BYTES // (len(spec.job.payload) + JOB_BYTES)))
    for at in range(0, len(times), size):
        yield [jobs.job(key, wanted, time) for time in times[at : at + size]]


def _moment(given: datetime, named: str, tz: tzinfo) -> Moment:
    """A time without a zone is one in the zone of the repeat."""
    if isinstance(given, datetime) and given.tzinfo is None:
        given = given.replace(tzinfo=tz)
    return moment(given, named)


def _origin(repeat: Repeat, spec: RepeatSpec) -> Moment:
    """Return a fire time from which intervals are counted."""
    for known in (repeat.cursor, repeat.last, spec.start_after):
        if known is not None:
            return known
    if isinstance(spec.pattern, Every):
        raise UsageError(
            f"repeat {repeat.key!r} has never fired and never will, so its fire times are not "
            "known: give it a start_after"
        )
    return 0
