"""The page of repeats, and a try-out of patterns: when would this line fire?"""

from starlette.responses import Response

from mita.errors import UsageError
from mita.model.pattern import Cron, Every, Pattern
from mita.model.record import RepeatRecord
from mita.rules.schedule.times import pattern_in_words
from mita.web.clock_changes import Fire, fires_in, zone_of
from mita.web.fields import UNITS_S
from mita.web.visit import Visit

_TRIED_FIRES = 10


async def show(visit: Visit) -> Response:
    """Show all repeats, and the fires of a pattern that the address names."""
    repeats = await visit.site.aged.get("repeats", visit.app.repeats.all)
    tried, error = await _tried(visit)
    return visit.render("repeats.html", repeats=repeats, tried=tried, error=error)


async def _tried(visit: Visit) -> tuple[tuple[str, list[Fire]] | None, str]:
    """The pattern of the address in words, with its next fires; or why it is none."""
    if not visit.query("cron") and not visit.query("every"):
        return None, ""
    try:
        pattern = _pattern(visit)
        times = await visit.app.repeats.preview(pattern, _TRIED_FIRES)
        return (pattern_in_words(pattern), fires_in(times, zone_of(pattern))), ""
    except UsageError as error:
        return None, str(error)


def _pattern(visit: Visit) -> Pattern:
    line = visit.query("cron")
    if line:
        return Cron(line, tz=visit.query("tz") or "UTC")
    given, unit = visit.query("every") or "", visit.query("unit") or "s"
    if not given.isdecimal() or len(given) > 9 or unit not in UNITS_S:
        raise UsageError(f"every {given!r} {unit!r}: give a whole number and a unit, 10 minutes")
    return Every(int(given) * UNITS_S[unit])


def zone_name(repeat: RepeatRecord) -> str:
    """The name of the time zone of a repeat."""
    return repeat.pattern.tz if isinstance(repeat.pattern, Cron) else "UTC"
