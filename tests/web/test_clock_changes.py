from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mita.model.pattern import Cron, Every
from mita.web.clock_changes import fires_around, fires_in, next_change, zone_of

BERLIN = ZoneInfo("Europe/Berlin")


def test_the_next_change_of_clocks() -> None:
    change = next_change(BERLIN, datetime(2027, 1, 10, 12, 34, 56, tzinfo=UTC))
    assert change is not None
    assert change.at == datetime(2027, 3, 28, 1, tzinfo=UTC)
    assert change.words == "clocks go forward by 1 h"
    after = next_change(BERLIN, change.at)
    assert after is not None
    assert (after.at, after.words) == (
        datetime(2027, 10, 31, 1, tzinfo=UTC),
        "clocks go back by 1 h",
    )


def test_half_an_hour() -> None:
    change = next_change(ZoneInfo("Australia/Lord_Howe"), datetime(2027, 1, 1, tzinfo=UTC))
    assert change is not None
    assert change.words == "clocks go back by 30 m"


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_zone_that_does_not_change_its_clocks(zone: str) -> None:
    assert next_change(ZoneInfo(zone), datetime(2027, 1, 1, tzinfo=UTC)) is None


def test_a_time_of_day_that_does_not_exist_fires_after_the_gap() -> None:
    change = next_change(BERLIN, datetime(2027, 1, 1, tzinfo=UTC))
    assert change is not None
    fires = fires_around(Cron("30 2 * * *", tz="Europe/Berlin"), change)
    assert [(fire.local, fire.offset, fire.note) for fire in fires] == [
        ("Sat 2027-03-27 02:30", "+01:00", ""),
        ("Sun 2027-03-28 03:00", "+02:00", "clocks go forward by 1 h before this"),
        ("Mon 2027-03-29 02:30", "+02:00", ""),
    ]


def test_a_time_of_day_that_comes_twice_fires_once() -> None:
    change = next_change(BERLIN, datetime(2027, 9, 1, tzinfo=UTC))
    assert change is not None
    fires = fires_around(Cron("30 2 * * *", tz="Europe/Berlin"), change)
    assert [(fire.local, fire.offset) for fire in fires] == [
        ("Sat 2027-10-30 02:30", "+02:00"),
        ("Sun 2027-10-31 02:30", "+02:00"),
        ("Mon 2027-11-01 02:30", "+01:00"),
    ]
    assert fires[2].note == "clocks go back by 1 h before this"


def test_many_fires_around_a_change_are_cut() -> None:
    change = next_change(BERLIN, datetime(2027, 1, 1, tzinfo=UTC))
    assert change is not None
    assert len(fires_around(Cron("* * * * *", tz="Europe/Berlin"), change)) == 60


def test_an_interval_is_in_utc() -> None:
    assert zone_of(Every(60)) is UTC
    assert zone_of(None) is UTC
    start = datetime(2027, 1, 1, tzinfo=UTC)
    fires = fires_in([start, start + timedelta(hours=1)], UTC)
    assert [(fire.local, fire.offset, fire.note) for fire in fires] == [
        ("Fri 2027-01-01 00:00", "+00:00", ""),
        ("Fri 2027-01-01 01:00", "+00:00", ""),
    ]
    assert fires_in([], UTC) == []
