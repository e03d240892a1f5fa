"""Round numbers and round times for the axes of a picture."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

_MOST_LINES = 4  # of numbers, above zero
_STEPS_S = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200),
)
_DAY_STEPS = (1, 2, 3, 7, 14, 28, 91, 182, 365, 730, 1826, 3652, 18_262)
_DAY_S = 86_400
_MINUTE_S = 60


def round_numbers(highest: float) -> list[float]:
    """From 0 to the first round number that is not below `highest`: 0, 50, 100, 150. Whole numbers,
    because they count jobs; 0 and 1 if there is nothing to count."""
    if not math.isfinite(highest) or highest <= 0:
        return [0, 1]
    power = 1
    while True:
        for step in (power, 2 * power, 5 * power):
            if highest <= _MOST_LINES * step:
                return [float(step * n) for n in range(math.ceil(highest / step) + 1)]
        power *= 10


def short_number(value: float) -> str:
    """`950`, `1.2k`, `15k`, `3M`: for an axis, which has no room for more."""
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def round_times(start: datetime, end: datetime, most: int, zone: tzinfo = UTC) -> list[datetime]:
    """At most `most` round times of the `zone` between two times: full hours, midnights, and so
    on. None if the times are the same."""
    seconds = (end - start).total_seconds()
    if seconds <= 0 or most < 1:
        return []
    for step_s in _STEPS_S:
        if seconds / step_s <= most:
            return list(_within_days(start.astimezone(zone), end, step_s))[:most]
    days = next((n for n in _DAY_STEPS if seconds / (n * _DAY_S) <= most), _DAY_STEPS[-1])
    return list(_midnights(start.astimezone(zone), end, days))[:most]


def _within_days(start: datetime, end: datetime, step_s: int) -> Iterator[datetime]:
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    since = (start - midnight).total_seconds()
    at = midnight.astimezone(UTC) + timedelta(seconds=math.ceil(since / step_s) * step_s)
    while at <= end:
        yield at.astimezone(start.tzinfo)
        at += timedelta(seconds=step_s)


def _midnights(start: datetime, end: datetime, days: int) -> Iterator[datetime]:
    at = start.replace(hour=0, minute=0, second=0, microsecond=0)
    if at < start:
        at += timedelta(days=1)
    while at <= end:
        yield at
        try:
            at += timedelta(days=days)
        except OverflowError:  # the year 9999 ends
            return


def clock_kind(start: datetime, end: datetime) -> str:
    """What tells the times of an axis apart: `second`, `minute` or `day`. A script may show those
    of the first two in the zone of the viewer."""
    length_s = (end - start).total_seconds()
    if length_s > 2 * _DAY_S:
        return "day"
    return "second" if length_s < 10 * _MINUTE_S else "minute"


def zone_text(place: int, at: datetime, kind: str) -> str:
    """The zone, after the first time of an axis; empty for the others, and for days."""
    return f" {at:%Z}" if not place and kind != "day" else ""


def time_text(at: datetime, start: datetime, end: datetime) -> str:
    """A time on an axis from `start` to `end`: as much of it as tells it from the others."""
    length_s = (end - start).total_seconds()
    is_midnight = (at.hour, at.minute, at.second) == (0, 0, 0)
    if length_s > 300 * _DAY_S:
        return f"{at:%Y-%m-%d}"
    if length_s > 2 * _DAY_S or (is_midnight and start.date() != end.date()):
        return f"{at.day} {at:%b}" if is_midnight else f"{at.day} {at:%b %H:%M}"
    if length_s < 5:
        return f"{at:%H:%M:%S}.{at.microsecond // 100_000}"
    return f"{at:%H:%M:%S}" if length_s < 10 * _MINUTE_S else f"{at:%H:%M}"
