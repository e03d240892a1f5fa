"""How templates show times, states, numbers and values."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from markupsafe import Markup

from mita.model.record import DisplayState, JobRecord
from mita.model.time import SECOND, Wait
from mita.rules.display import limit_text, rate_text, span
from mita.rules.words import brief, first_line, per_second, relative, when

from .svg import ChartSeries, bar_chart, chart_table, job_timeline, sparkline, state_mark

MOST_VALUE_CHARACTERS = 20_000
_SHORT_ID_CHARACTERS = 12


def icon(state: object) -> Markup:
    """The shape of a state, without its name."""
    return Markup(state_mark(str(state)))  # noqa: S704 - all text in pictures is escaped


def state_tag(state: object) -> Markup:
    """The shape and the name of a state."""
    return Markup('<span class="state">{} {}</span>').format(icon(state), str(state))


def moment(at: datetime | None, now: datetime | None = None) -> Markup:
    """A time as people say it, with the exact one on hover. The script keeps it up to date, and
    shows it in the zone of the viewer."""
    if at is None:
        return Markup("")
    exact = at.astimezone(UTC)
    return Markup('<time datetime="{}" title="{} UTC">{}</time>').format(
        exact.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        f"{exact:%Y-%m-%d %H:%M:%S}",
        relative(at, now or datetime.now(UTC)),
    )


def clock(at: datetime | None) -> Markup:
    """A time of day, exact; the script shows it in the zone of the viewer."""
    if at is None:
        return Markup("")
    exact = at.astimezone(UTC)
    return Markup('<time class="exact" datetime="{}">{} UTC</time>').format(
        exact.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        f"{exact:%Y-%m-%d %H:%M:%S}",
    )


def number(n: float | None) -> str:
    """`1,204`; `?` for None."""
    return "?" if n is None else f"{n:,}"


def lasting(given: timedelta | Wait | float | None) -> str:
    """A length of time. A whole number is milliseconds, another number is seconds."""
    if given is None:
        return ""
    if isinstance(given, timedelta):
        return span(round(given.total_seconds() * SECOND))
    return span(given if isinstance(given, int) else round(given * SECOND))


def age(seconds: float) -> str:
    """How old a count is: empty if it is new."""
    return "" if seconds < 2 else f"counted {brief(timedelta(seconds=seconds))} ago"


def timeline(job: JobRecord, now: datetime) -> Markup:
    """Where the time of a job went, as a picture."""
    return Markup(job_timeline(job, now))  # noqa: S704 - all text in pictures is escaped


def spark(values: Sequence[float], label: str, css: str = "series-failed") -> Markup:
    """A row of numbers as a small picture."""
    return Markup(sparkline(values, label, css=css))  # noqa: S704 - all text in pictures is escaped


def value(given: Any) -> str:
    """A value of a job as JSON for people, cut if it is long."""
    text = msgspec.json.format(msgspec.json.encode(given, enc_hook=repr), indent=2).decode()
    if len(text) <= MOST_VALUE_CHARACTERS:
        return text
    return (
        f"{text[:MOST_VALUE_CHARACTERS]}\n… {len(text) - MOST_VALUE_CHARACTERS:,} more characters"
    )


def short_id(id: str) -> str:
    """The beginning of a job's id; the number of a step stays."""
    first, point, rest = id.partition(".")
    return f"{first[:_SHORT_ID_CHARACTERS]}{point}{rest.lstrip('0') or '0' if point else ''}"


def bars(
    label: str, times: Sequence[datetime], series: Sequence[ChartSeries], each: timedelta
) -> Markup:
    """Numbers over time as a picture, with the same numbers as a table below it."""
    picture = Markup(bar_chart(label, times, series, each=each))  # noqa: S704 - text is escaped
    table = Markup(chart_table(label, times, series))  # noqa: S704 - text is escaped
    folded = Markup('<details class="numbers-of"><summary>As a table</summary>{}</details>')
    return picture + folded.format(table)


FILTERS: dict[str, Callable[..., Any]] = {
    "age": age,
    "clock": clock,
    "first_line": first_line,
    "icon": icon,
    "lasting": lasting,
    "limit_text": limit_text,
    "moment": moment,
    "number": number,
    "per_second": per_second,
    "rate_text": rate_text,
    "short_id": short_id,
    "span": span,
    "spark": spark,
    "state_tag": state_tag,
    "timeline": timeline,
    "value": value,
    "when": when,
}
GLOBALS: dict[str, object] = {"bars": bars, "STATES": tuple(state.value for state in DisplayState)}
