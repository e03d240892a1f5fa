"""Cron lines in time zones. cronsim reads the line and knows its days; the times of a day are found
here.

A line that names its hours and minutes fires once for each of them: a local time that does not
exist fires right after the gap, one that exists twice fires the first time. A line whose minute or
hour begins with `*` is an interval on the wall clock: it fires whenever that clock shows a time of
its own, both times where an hour comes twice. This holds for lines of six fields too, and where the
clock is moved by less or more than an hour; cronsim's own walk leaves some of those fires out."""

import re
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Any, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from cronsim.cronsim import Field

from mita.errors import UsageError
from mita.model.pattern import Cron
from mita.model.time import SECOND, Moment

MOST_LINE_CHARACTERS = 500
SEARCHED_YEARS = 50  # without a match for so long, a line has none
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})", re.ASCII)
_DAY = timedelta(days=1)
NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = {
    Field.SECOND: ("second", "0 to 59"),
    Field.MINUTE: ("minute", "0 to 59"),
    Field.HOUR: ("hour", "0 to 23"),
    Field.DAY: ("day of month", "1 to 31, L for the last, LW for the last weekday"),
    Field.MONTH: ("month", "1 to 12 or JAN to DEC"),
    Field.DOW: (
        "day of week",
        "0 to 7 or SUN to SAT, MON#2 for the second Monday, 5L for the last Friday",
    ),
}


@lru_cache(maxsize=1024)
def zone(name: str) -> tzinfo:
    """Returns the time zone of that name or fixed offset."""
    if offset := _OFFSET.fullmatch(name):
        sign, hours, minutes = offset.groups()
        away = timedelta(hours=int(hours), minutes=int(minutes))
        if int(minutes) < 60 and away < timedelta(hours=24):
            return timezone(-away if sign == "-" else away)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            f"time zone {name!r} is not known: use an IANA name such as 'Europe/Madrid', or an "
            "offset such as '+02:00'"
        ) from error


def check(cron: Cron) -> None:
    """Raise a `UsageError` that says which part of the line is wrong."""
    if not isinstance(cron.expression, str) or not isinstance(cron.tz, str):
        raise UsageError(
            f"{cron!r}: both the line and the time zone are text, as in Cron('0 9 * * *', "
            "tz='Europe/Madrid')"
        )
    zone(cron.tz)
    _read(cron.expression)


def after(cron: Cron, moment: Moment) -> Iterator[Moment]:
    """Yields the fires later than `moment`, in order; ends when the line has no further match."""
    line, tz, last = _read(cron.expression), zone(cron.tz), moment // SECOND
    start = datetime.fromtimestamp(last, tz).replace(tzinfo=None)
    for day in _days(line, start.date()):
        from_then = start.time() if day == start.date() else time()
        for fire in _fires_of(line, day, from_then, tz):
            # two local times may be one moment, and an hour that comes twice was there before
            if fire > last:
                last = fire
                yield fire * SECOND


def in_words(cron: Cron) -> str:
    """Returns the line in words."""
    return f"{_read(cron.expression).words} ({cron.tz})"


class _Line:
    """The fields of a line, in order."""

    def __init__(self, simulated: CronSim) -> None:
        self.seconds = sorted(simulated.seconds)
        self.minutes = sorted(simulated.minutes)
        self.hours = sorted(simulated.hours)
        self.months = simulated.months
        self.on_day = simulated.match_day
        self.interval = simulated.parts[1].startswith("*") or simulated.parts[2].startswith("*")
        self.words = simulated.explain()

    def times(self, start: time) -> Iterator[time]:
        """Yields the times of a day, from `start` on."""
        first = (start.hour, start.minute, start.second)
        for hour in self.hours[bisect_left(self.hours, first[0]) :]:
            minute_from = first[1] if hour == first[0] else 0
            for minute in self.minutes[bisect_left(self.minutes, minute_from) :]:
                second_from = first[2] if (hour, minute) == first[:2] else 0
                for second in self.seconds[bisect_left(self.seconds, second_from) :]:
                    yield time(hour, minute, second)

    def shows(self, local: datetime) -> bool:
        """Whether the line has this time of day."""
        return (
            local.minute in self.minutes
            and local.hour in self.hours
            and local.month in self.months
            and self.on_day(local.date())
        )


def _days(line: _Line, day: date) -> Iterator[date]:
    """The days of a line, from this one on."""
    empty_after = day.year + SEARCHED_YEARS
    while day.year <= min(empty_after, date.max.year - 1):
        if day.month not in line.months:
            day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
            continue
        if line.on_day(day):
            yield day
            empty_after = day.year + SEARCHED_YEARS
        day += _DAY


def _fires_of(line: _Line, day: date, start: time, tz: tzinfo) -> Iterator[int]:
    """The fires of a day in seconds since 1970, in order; two of them may be the same."""
    begins, ends = (datetime.combine(each, time(), tz) for each in (day, day + _DAY))
    away = begins.utcoffset()
    # the clock is not moved on that day
    if away == ends.utcoffset() == begins.replace(fold=1).utcoffset():
        for at in line.times(start):
            yield _seconds(datetime.combine(day, at, UTC)) - round(
                cast(timedelta, away).total_seconds()
            )
    elif line.interval:
        yield from _shown(line, _seconds(begins), _seconds(ends), tz)
    else:
        for at in line.times(start):
            yield _first(datetime.combine(day, at, tz))


def _shown(line: _Line, begins: int, ends: int, tz: tzinfo) -> Iterator[int]:
    """Every point in time of one day at which the wall clock shows a time of the line."""
    for minute in range(begins, ends, 60):
        if line.shows(datetime.fromtimestamp(minute, tz)):
            yield from (minute + second for second in line.seconds)


def _first(local: datetime) -> int:
    """The first point in time at which the wall clock shows this time; the end of the gap if it is
    skipped."""
    before, behind = _seconds(local), _seconds(local.replace(fold=1))
    if before <= behind:
        return before
    # in a gap fold=0 counts with the old offset, and so comes out later
    tz, low, high = local.tzinfo, behind, before
    new = datetime.fromtimestamp(high, tz).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle)
            if datetime.fromtimestamp(middle, tz).utcoffset() == new
            else (middle, high)
        )
    return high


def _seconds(moment: datetime) -> int:
    return round(moment.timestamp())


# ---------------------------------------------------------------- reading a line


@lru_cache(maxsize=4096)
def _read(expression: str) -> _Line:
    if len(expression) > MOST_LINE_CHARACTERS:
        raise UsageError(
            f"cron line of {len(expression)} characters: it takes at most {MOST_LINE_CHARACTERS}"
        )
    try:
        line = NICKNAMES.get(expression.strip().lower(), expression)
        return _Line(CronSim(line, datetime(1970, 1, 1, tzinfo=UTC)))
    except (CronSimError, ValueError, AssertionError) as error:
        raise UsageError(
            f"cron line {expression!r} cannot be read: {_what_is_wrong(expression)}. "
            "It takes 5 fields (minute hour day month weekday), or 6 with seconds first, or one "
            f"of {', '.join(NICKNAMES)}"
        ) from error


def _what_is_wrong(expression: str) -> str:
    parts = expression.upper().split()
    if parts == ["@REBOOT"]:
        return "no machine starts here; enqueue a job where your program starts instead"
    if expression.startswith("@"):
        return f"{expression} is no name of a line"
    if len(parts) not in (5, 6):
        return f"it has {len(parts)} field{'s' * (len(parts) != 1)}"
    for field, part in zip(list(Field)[6 - len(parts) :], parts, strict=True):
        if not _is_sound(field, part):
            name, takes = _FIELDS[field]
            return f"the field {name} is {part!r}, and takes {takes}, also with * - , /"
    return f"the field day of month is {parts[-3]!r}, and no month {parts[-2]!r} has such a day"


def _is_sound(field: Field, part: str) -> bool:
    try:
        found: Any = field.parse(part)
    except (CronSimError, ValueError, AssertionError):
        return False
    return bool(found)
