"""Cron lines where clocks change: every zone, every change from 2020 to 2037, against an oracle of
our own.

The oracle walks over the minutes of UTC around a change and looks at the clock on the wall; it
knows nothing of cron but one predicate for each line. Zones that change alike are looked at once. A
normal run takes a sample of the changes, in which each kind of change (how far, at what time of
day, on a gap or a fold) is there; MITA_SOAK=1 takes all of them."""

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import pytest
from cronsim import CronSim

from mita import Cron
from mita.model.time import SECOND
from mita.rules.schedule import cron

SOAK = os.environ.get("MITA_SOAK", "") not in ("", "0")
BEGIN, END = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (2020, 2038))
AROUND = 27 * 3600  # seconds before and after: the whole local day of the change, wherever it is
MINUTE = timedelta(minutes=1)


class Line(NamedTuple):
    """`interval`: it fires whenever the wall clock shows its time, also a second time."""

    shows: Callable[[datetime], bool]
    interval: bool


LINES = {
    "30 2 * * *": Line(lambda wall: (wall.hour, wall.minute) == (2, 30), interval=False),
    "0 30 2 * * *": Line(lambda wall: (wall.hour, wall.minute) == (2, 30), interval=False),
    "0,30 0-3 * * *": Line(lambda wall: wall.hour < 4 and wall.minute in (0, 30), interval=False),
    "15 23,0,1 * * *": Line(
        lambda wall: wall.hour in (23, 0, 1) and wall.minute == 15, interval=False
    ),
    "45 1 * * SUN": Line(
        lambda wall: (wall.hour, wall.minute, wall.weekday()) == (1, 45, 6), interval=False
    ),
    "*/10 * * * *": Line(lambda wall: wall.minute % 10 == 0, interval=True),
    "0 */10 * * * *": Line(lambda wall: wall.minute % 10 == 0, interval=True),
    "5 */2 * * *": Line(lambda wall: wall.hour % 2 == 0 and wall.minute == 5, interval=True),
    "*/20 1-3 * * *": Line(
        lambda wall: 1 <= wall.hour <= 3 and wall.minute % 20 == 0, interval=True
    ),
    "*/30 0 * * *": Line(lambda wall: wall.hour == 0 and wall.minute % 30 == 0, interval=True),
}

Walls = list[tuple[int, datetime]]


class Change(NamedTuple):
    """The first second of a new offset, and both offsets, in seconds."""

    at: int
    before: float
    after: float

    @property
    def kind(self) -> tuple[float, float]:
        """The length of the change, and the time of day at which it happens."""
        return self.after - self.before, (self.at + self.before) % 86400


def offset(at: int, tz: ZoneInfo) -> float:
    away = datetime.fromtimestamp(at, tz).utcoffset()
    assert away is not None
    return away.total_seconds()


def changes(tz: ZoneInfo) -> Iterator[Change]:
    """All changes of a zone, found by comparing offsets and not by reading the zone's file. No
    zone changes twice in two days."""
    step = 2 * 86400
    for start in range(BEGIN, END, step):
        low, high = start, start + step
        old, new = offset(low, tz), offset(high, tz)
        if old == new:
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if offset(middle, tz) == new else (middle, high)
        yield Change(high, old, new)


@cache
def places() -> dict[tuple[Change, ...], str]:
    """One zone for each list of changes."""
    found: dict[tuple[Change, ...], str] = {}
    for name in sorted(available_timezones()):
        if history := tuple(changes(ZoneInfo(name))):
            found.setdefault(history, name)
    return found


def sample() -> list[tuple[str, Change]]:
    """All changes; or one in thirty, and the first of each kind."""
    everything = sorted((name, change) for history, name in places().items() for change in history)
    first = {change.kind: (name, change) for name, change in reversed(everything)}
    return everything if SOAK else sorted({*everything[::30], *first.values()})


def walls(change: Change, tz: ZoneInfo) -> Walls:
    """What the wall clock shows at each minute around the change."""
    start = change.at - change.at % 60 - AROUND
    return [
        (at, datetime.fromtimestamp(at, tz).replace(tzinfo=None, fold=0))
        for at in range(start, start + 2 * AROUND, 60)
    ]


def oracle(line: Line, seen: Walls) -> list[int]:
    if line.interval:
        return [at for at, wall in seen if line.shows(wall)]
    fires, shown, before = [], set(), seen[0][1] - MINUTE
    for at, wall in seen:
        skipped = [before + n * MINUTE for n in range(1, max(1, (wall - before) // MINUTE))]
        if any(map(line.shows, skipped)) or (line.shows(wall) and wall not in shown):
            fires.append(at)
        shown.add(wall)
        before = wall
    return fires


def ours(expression: str, tz: str, seen: Walls) -> list[int]:
    times = cron.after(Cron(expression, tz=tz), (seen[0][0] - 1) * SECOND)
    return [time // SECOND for time in takewhile(lambda time: time <= seen[-1][0] * SECOND, times)]


def cronsims(expression: str, tz: str, seen: Walls) -> list[int]:
    simulated = CronSim(expression, datetime.fromtimestamp(seen[0][0] - 1, ZoneInfo(tz)))
    return [
        int(time.timestamp())
        for time in takewhile(lambda time: time.timestamp() <= seen[-1][0], simulated)
    ]


@pytest.mark.timeout(1800)
def test_fires_around_clock_changes_equal_those_of_the_oracle() -> None:
    """I7"""
    wrong = []
    for name, change in sample():
        seen = walls(change, ZoneInfo(name))
        wrong += [
            f"{expression} in {name} around {datetime.fromtimestamp(change.at, UTC)}"
            for expression, line in LINES.items()
            if ours(expression, name, seen) != oracle(line, seen)
        ]
    assert not wrong, wrong[:20]


def test_the_sample_has_every_kind_of_change() -> None:
    everything = {change.kind for history in places() for change in history}
    assert {change.kind for _, change in sample()} == everything
    assert {far for far, _ in everything} >= {3600.0, -3600.0, 1800.0, -1800.0, 7200.0, -7200.0}


def test_cronsim_is_wrong_for_some_clock_changes() -> None:
    """It is right almost everywhere. It treats lines of six fields as intervals, and is wrong
    for changes of half an hour."""
    autumn = next(
        change for change in changes(ZoneInfo("Europe/Madrid")) if change.after < change.before
    )
    seen, line = walls(autumn, ZoneInfo("Europe/Madrid")), "0 30 2 * * *"
    assert len(cronsims(line, "Europe/Madrid", seen)) == len(ours(line, "Europe/Madrid", seen)) + 1
    howe = next(changes(ZoneInfo("Australia/Lord_Howe")))
    seen = walls(howe, ZoneInfo("Australia/Lord_Howe"))
    assert set(cronsims("*/30 0 * * *", "Australia/Lord_Howe", seen)) < set(
        oracle(LINES["*/30 0 * * *"], seen)
    )


@pytest.mark.parametrize(
    "tz", ["America/New_York", "Australia/Lord_Howe", "Europe/Dublin", "Africa/Cairo"]
)
@pytest.mark.parametrize("expression", LINES)
def test_the_next_fire_does_not_depend_on_the_minute_of_the_question(
    expression: str, tz: str
) -> None:
    """I7: especially inside an hour that comes twice."""
    for change in list(changes(ZoneInfo(tz)))[:2]:
        seen = walls(change, ZoneInfo(tz))
        whole = ours(expression, tz, seen)
        for at in range(change.at - 7200, change.at + 7200, 420):
            following = next((fire for fire in whole if fire > at), None)
            found = next(cron.after(Cron(expression, tz=tz), at * SECOND)) // SECOND
            assert found == following or (following is None and found > seen[-1][0])
