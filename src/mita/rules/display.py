"""How moments, lengths and states are shown to people."""

from datetime import UTC, datetime

from mita.model.gate import StoredLimit
from mita.model.job import Job
from mita.model.record import DisplayState
from mita.model.time import DAY, HOUR, MINUTE, SECOND, Moment, Wait

from .gates import ONE_MS_US
from .matching import shown_as

ONE_SECOND_US = 1_000_000
_RATE_UNITS = {SECOND: "s", MINUTE: "m", HOUR: "h", DAY: "d"}


def as_datetime(moment: Moment) -> datetime:
    """A point in time as a datetime in UTC."""
    return datetime.fromtimestamp(moment / SECOND, UTC)


def shown(job: Job, now: Moment) -> DisplayState:
    """The state of a job as it is shown: a queued job is waiting, scheduled or ready."""
    return shown_as(job.state, job.due, now)


def clock(moment: Moment, now: Moment) -> str:
    """The time of day, with the date unless it is today's (UTC)."""
    then, today = as_datetime(moment), as_datetime(now)
    return then.strftime("%H:%M:%S UTC" if then.date() == today.date() else "%Y-%m-%d %H:%M:%S UTC")


def span(length: Wait) -> str:
    """A length in its largest one or two units: `850 ms`, `4.2 s`, `3 m 20 s`, `2 d 5 h`."""
    length = abs(length)
    if length < SECOND:
        return f"{length} ms"
    if length < MINUTE:
        return f"{length / SECOND:.3g} s"
    for unit, name, smaller, smaller_name in (
        (DAY, "d", HOUR, "h"),
        (HOUR, "h", MINUTE, "m"),
        (MINUTE, "m", SECOND, "s"),
    ):
        if length >= unit:
            whole, rest = divmod(length, unit)
            return (
                f"{whole} {name} {rest // smaller} {smaller_name}"
                if rest >= smaller
                else f"{whole} {name}"
            )
    return f"{length} ms"


def rate_text(interval_us: int, burst: int = 1) -> str:
    """`100/s`, `1 per 2 m`; with the burst if it is more than 1. Empty for no rate."""
    if not interval_us:
        return ""
    whole_seconds, rest_us = divmod(interval_us, ONE_SECOND_US)
    text = (
        f"1 per {span(whole_seconds * SECOND)}"
        if whole_seconds > 1 and not rest_us
        else rate_option(interval_us)
    )
    return text if burst == 1 else f"{text}, burst {burst}"


def rate_option(interval_us: int) -> str:
    """A rate as the command line reads it: `100/s`, `100/m`, or `1/2.5s` if it is no whole number
    of starts in any unit. An interval is rounded up to a microsecond, which is not shown."""
    for unit, name in _RATE_UNITS.items():
        starts = unit * ONE_MS_US / interval_us
        if starts > 1 - 1 / interval_us and abs(starts - round(starts)) <= starts / interval_us:
            return f"{round(starts)}/{name}"
    return f"1/{interval_us / ONE_SECOND_US:g}s"


def limit_text(limit: StoredLimit | None) -> str:
    """`50 at once, 100/s`, or `stopped`; empty for no limit."""
    if limit is None:
        return ""
    if limit.concurrency == 0:
        return "stopped"
    parts = [] if limit.concurrency is None else [f"{limit.concurrency} at once"]
    if limit.interval_us:
        parts.append(rate_text(limit.interval_us, limit.burst))
    return ", ".join(parts)


def times(n: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 job`, `2 jobs`."""
    return f"{n} {one if n == 1 else many or one + 's'}"
