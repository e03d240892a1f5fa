"""When the clocks of a time zone change, and which fires of a repeat that concerns. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, takewhile

from msgspec import Struct

from mita.client.repeat_spec import fires_from
from mita.model.pattern import Cron, Pattern
from mita.model.time import SECOND
from mita.rules.display import as_datetime, span
from mita.rules.schedule.cron import zone

_AHEAD_DAYS = 400  # to look for a change: each zone that changes its clocks does it once a year
_AROUND = timedelta(hours=26)  # fires this near to a change are shown
_MOST_FIRES = 60


class ClockChange(Struct, frozen=True):
    """A change of clocks: when, and the time from UTC before and after it."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def words(self) -> str:
        """`clocks go back by 1 h`."""
        way = "forward" if self.after > self.before else "back"
        return f"clocks go {way} by {_length(self.after - self.before)}"


class Fire(Struct, frozen=True):
    """A fire time: the time in the zone of the repeat, as text, and what is special about it."""

    at: datetime
    local: str
    offset: str
    note: str = ""


def zone_of(pattern: Pattern | None) -> tzinfo:
    """The time zone of a pattern; UTC for an interval."""
    return zone(pattern.tz) if isinstance(pattern, Cron) else UTC


def next_change(tz: tzinfo, start: datetime) -> ClockChange | None:
    """The next time that the clocks of this zone change; None if they do not."""
    day = start
    for _ in range(_AHEAD_DAYS):
        later = day + timedelta(days=1)
        if _offset(day, tz) != _offset(later, tz):
            return _between(day, later, tz)
        day = later
    return None


def _between(early: datetime, late: datetime, tz: tzinfo) -> ClockChange:
    before, after = _offset(early, tz), _offset(late, tz)
    while late - early > timedelta(seconds=1):
        middle = early + (late - early) / 2
        early, late = (middle, late) if _offset(middle, tz) == before else (early, middle)
    rounded = (late + timedelta(milliseconds=500)).replace(microsecond=0)
    return ClockChange(rounded - timedelta(seconds=rounded.second), before, after)


def _offset(at: datetime, tz: tzinfo) -> timedelta:
    return at.astimezone(tz).utcoffset() or timedelta()


def fires_in(times: Sequence[datetime], tz: tzinfo) -> list[Fire]:
    """These fire times, each in the zone of its repeat. A note says where clocks have changed since
    the one before."""
    found: list[Fire] = []
    clock = "%H:%M:%S" if any(at.second for at in times) else "%H:%M"
    last: timedelta | None = None
    for at in times:
        local, now = at.astimezone(tz), _offset(at, tz)
        changed = last is not None and last != now
        note = f"{ClockChange(at, last or now, now).words} before this" if changed else ""
        found.append(Fire(at, f"{local:%a %Y-%m-%d} {local:{clock}}", _written(now), note))
        last = now
    return found


def fires_around(pattern: Pattern, change: ClockChange) -> list[Fire]:
    """The fires of a pattern near a change of clocks."""
    start = round((change.at - _AROUND).timestamp() * SECOND)
    times = (as_datetime(moment) for moment in fires_from(pattern, start))
    near = takewhile(lambda at: at <= change.at + _AROUND, islice(times, _MOST_FIRES))
    return fires_in(list(near), zone_of(pattern))


def _written(offset: timedelta) -> str:
    """`+02:00`."""
    minutes = round(offset.total_seconds() / 60)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


def _length(between: timedelta) -> str:
    return span(round(between.total_seconds() * SECOND))
