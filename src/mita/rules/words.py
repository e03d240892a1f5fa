"""Times, counts and errors as text for people."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from mita.model.record import DisplayState, JobRecord
from mita.model.time import DAY, HOUR, MINUTE, SECOND
from mita.rules.display import span

_BARS = "▁▂▃▄▅▆▇█"


def length(between: timedelta) -> str:
    """`850 ms`, `4.2 s`, `3 m 20 s`."""
    return span(round(between.total_seconds() * SECOND))


def brief(between: timedelta) -> str:
    """Within a tenth: `850 ms`, `4.2 s`, `12 s`, `3 m 20 s`, `25 m`, `1 h 59 m`, `12 d`."""
    milliseconds = max(round(between.total_seconds() * SECOND), 0)
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s")):
        if milliseconds >= 10 * unit:
            return f"{milliseconds // unit} {name}"
        if milliseconds >= unit:
            break
    return span(milliseconds)


def relative(moment: datetime | None, now: datetime) -> str:
    """`in 4 m`, `2 h ago`; empty for None."""
    if moment is None:
        return ""
    return f"in {brief(moment - now)}" if moment > now else f"{brief(now - moment)} ago"


def when(job: JobRecord, now: datetime) -> str:
    """The most important time of a job, for its state."""
    match job.state:
        case DisplayState.WAITING:
            # a job that has run and waits now, waits for a signal
            return "at its signal" if job.reschedules else "after others"
        case DisplayState.SCHEDULED:
            return relative(job.due, now)
        case DisplayState.READY | DisplayState.BLOCKED:
            return f"for {brief(now - job.due)}" if job.due <= now else ""
        case DisplayState.RUNNING:
            return f"for {brief(now - (job.started or now))}"
    return relative(job.finished, now)


def clock(moment: datetime | None, now: datetime) -> str:
    """`2026-10-01 09:00:00 UTC, in 4 m 20 s`."""
    if moment is None:
        return ""
    from_now = f"in {length(moment - now)}" if moment > now else f"{length(now - moment)} ago"
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC, {from_now}"


def progress(job: JobRecord) -> str:
    """`3 of 10 page 3`; empty for a job without progress."""
    if job.progress is None:
        return ""
    total = "" if job.progress.total is None else f" of {job.progress.total:g}"
    return f"{job.progress.done:g}{total} {job.progress.message}".rstrip()


def bar(job: JobRecord, width: int) -> str:
    """` 60% [######----]`, which may be cut at its end; empty if the total is not known."""
    report = job.progress
    if report is None or not report.total or not report.total > 0 or math.isnan(report.done):
        return ""
    share = min(max(report.done / report.total, 0.0), 1.0)
    filled = int(share * width)
    return f"{share:>4.0%} [{'#' * filled}{'-' * (width - filled)}]"


def per_second(rate: float) -> str:
    """`1,204/s`, `20.4/s`, `0.05/s`."""
    digits = 0 if rate >= 100 else 1 if rate >= 1 or not rate else 2
    return f"{rate:,.{digits}f}/s"


def counted(n: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 job`, `2 jobs`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def sparkline(numbers: Sequence[int]) -> str:
    """Numbers as a row of bars, the highest for the largest number; a dot for 0."""
    most = max(numbers, default=0)
    return "".join(
        _BARS[(number * len(_BARS) - 1) // most] if number > 0 else "·" for number in numbers
    )


def first_line(error: str | None) -> str:
    """The first line of an error; empty for None."""
    return (error or "").split("\n", 1)[0]
