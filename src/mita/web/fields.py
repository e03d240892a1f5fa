"""Fields of forms that hold numbers, times and limits."""

from datetime import datetime

from mita.errors import UsageError
from mita.model.limits import Rate

from .visit import Form

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
MOST_DIGITS = 9


def whole_field(form: Form, name: str, what: str) -> int | None:
    """Return a whole number; None if the field is empty. Raises `UsageError`, which says `what` the
    number is, if it is none."""
    text = form.get(name)
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > MOST_DIGITS:
        raise UsageError(f"{what}: {text!r} is not a whole number: give one like 5")
    return int(text)


def unit_field(form: Form, name: str) -> int:
    """Return the seconds of a unit of time: s, m, h or d. Raises `UsageError` for another one."""
    text = form.get(name) or "s"
    if text not in UNITS_S:
        raise UsageError(f"{text!r} is not a unit of time: use one of {', '.join(UNITS_S)}")
    return UNITS_S[text]


def time_field(text: str, what: str) -> datetime:
    """Return a time without a zone, or with one. Raises `UsageError` if it is none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{what}: {text!r} is not a time: write 2030-01-31, 2030-01-31T09:00 (in the zone of "
            "the repeat), or 2030-01-31T09:00:00Z"
        ) from None


def limit_fields(form: Form) -> tuple[int | None, Rate | None]:
    """Return the limit of a form: how many jobs at once, and how many starts in a time. Raises
    `UsageError` if both are empty, because then nothing would be limited."""
    concurrency = whole_field(form, "concurrency", "jobs at once")
    starts = whole_field(form, "starts", "starts")
    burst = whole_field(form, "burst", "burst")
    if concurrency is None and starts is None:
        raise UsageError(
            "give a number of jobs at once, a rate, or both; the button “No limit” removes a limit"
        )
    if starts is None:
        return concurrency, None
    return concurrency, Rate(starts, per=unit_field(form, "per"), burst=burst or 1)
