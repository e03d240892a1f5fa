"""How templates show times, states, numbers and values."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from markupsafe import Markup

from mita.model.record import DisplayState
from mita.model.time import SECOND, Wait
from mita.rules.display import limit_text, rate_text, span
from mita.rules.words import brief, first_line, per_second, relative, when

MOST_VALUE_CHARACTERS = 20_000
_SHORT_ID_CHARACTERS = 12
# one shape for each state, so that it can be told without its colour
_SHAPES = {
    "waiting": '<path d="M4 2h8M4 14h8M5 2c0 4 6 4 6 6s-6 2-6 6M11 2c0 4-6 4-6 6"/>',
    "scheduled": '<circle cx="8" cy="8" r="6"/><path d="M8 4.5V8l2.5 1.5"/>',
    "ready": '<circle cx="8" cy="8" r="5.5"/>',
    "blocked": '<rect x="2.5" y="2.5" width="11" height="11"/><path d="M5.5 8h5"/>',
    "running": '<path class="fill" d="M4 2.5 13 8 4 13.5z"/>',
    "succeeded": '<path d="M2.5 8.5 6.5 12.5 13.5 4"/>',
    "failed": '<path d="M3 3l10 10M13 3 3 13"/>',
    "cancelled": '<circle cx="8" cy="8" r="6"/><path d="M4 12 12 4"/>',
}


def icon(state: object) -> Markup:
    """The shape of a state, without its name."""
    name = str(state)
    shape = Markup(_SHAPES.get(name, ""))  # noqa: S704 - one of ours
    return Markup('<svg class="icon s-{}" viewBox="0 0 16 16" aria-hidden="true">{}</svg>').format(
        name, shape
    )


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
    "state_tag": state_tag,
    "value": value,
    "when": when,
}
GLOBALS: dict[str, object] = {"STATES": tuple(state.value for state in DisplayState)}
