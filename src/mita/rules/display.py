"""How moments, lengths and states are shown to people."""

from datetime import UTC, datetime

from mita.model.job import Job, State
from mita.model.record import DisplayState
from mita.model.time import DAY, HOUR, MINUTE, SECOND, Moment, Wait

ONE_SECOND_US = 1_000_000


def as_datetime(moment: Moment) -> datetime:
    """A point in time as a datetime in UTC."""
    return datetime.fromtimestamp(moment / SECOND, UTC)


def shown(job: Job, now: Moment) -> DisplayState:
    """The state of a job as it is shown: a queued job is scheduled or ready."""
    if job.state is State.QUEUED:
        return DisplayState.SCHEDULED if job.due > now else DisplayState.READY
    return DisplayState(job.state.value)


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
    per_second = ONE_SECOND_US / interval_us
    text = (
        f"{per_second:.6g}/s"
        if per_second >= 1
        else f"1 per {span(round(interval_us / ONE_SECOND_US * SECOND))}"
    )
    return text if burst == 1 else f"{text}, {burst} at once"


def times(n: int, one: str, many: str = "") -> str:
    """A number with its noun: `1 job`, `2 jobs`."""
    return f"{n} {one if n == 1 else many or one + 's'}"
