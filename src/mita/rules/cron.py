"""Cron lines in time zones, over cronsim. A local time that does not exist fires once, right after the gap; one that
exists twice fires once, the earlier; patterns that name an interval (`*/10`) keep it."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from mita.errors import UsageError
from mita.model.pattern import Cron
from mita.model.time import SECOND, Moment

_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")


@lru_cache(maxsize=1024)
def zone(name: str) -> tzinfo:
    """The zone of that name, or of that fixed offset."""
    if offset := _OFFSET.fullmatch(name):
        sign, hours, minutes = offset.groups()
        away = timedelta(hours=int(hours), minutes=int(minutes))
        if away < timedelta(hours=24):
            return timezone(-away if sign == "-" else away)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            f"time zone {name!r} is not known: use an IANA name such as 'Europe/Madrid', or an offset such as '+02:00'"
        ) from error


def check(cron: Cron) -> None:
    """Raise a `UsageError` that says which part of the line is wrong."""
    zone(cron.tz)
    _simulate(cron, 0)


def after(cron: Cron, moment: Moment) -> Iterator[Moment]:
    """The fires later than `moment`, in order; ends when the line has no further match."""
    for fire in _simulate(cron, moment):
        yield round(fire.timestamp()) * SECOND


def in_words(cron: Cron) -> str:
    return f"{_simulate(cron, 0).explain()} ({cron.tz})"


def _simulate(cron: Cron, moment: Moment) -> CronSim:
    start = datetime.fromtimestamp(moment // SECOND, UTC).astimezone(zone(cron.tz))
    try:
        return CronSim(cron.expression, start)
    except CronSimError as error:
        raise UsageError(
            f"cron line {cron.expression!r} cannot be read: {error}. It takes 5 fields (minute hour day month weekday), "
            "or 6 with seconds first"
        ) from error
