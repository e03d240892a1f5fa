"""Cron lines in time zones, with the two days of the year on which clocks jump."""

from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mita.errors import UsageError
from mita.model.pattern import Cron
from mita.model.time import DAY, HOUR, MINUTE, SECOND, Moment
from mita.rules.schedule import cron
from mita.rules.when import moment

NEW_YORK = "America/New_York"
ZONES = [
    "UTC",
    NEW_YORK,
    "America/St_Johns",
    "America/Sao_Paulo",
    "Europe/Madrid",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",  # jumps by half an hour
    "Pacific/Chatham",
    "+05:30",
    "-0330",
]


def utc(*parts: int) -> Moment:
    return moment(datetime(*parts, tzinfo=UTC))  # type: ignore[misc, arg-type]


def fires(line: str, start: Moment, n: int, tz: str = "UTC") -> list[Moment]:
    return list(islice(cron.after(Cron(line, tz=tz), start), n))


def between(line: str, start: Moment, end: Moment, tz: str) -> list[Moment]:
    return list(takewhile(lambda fire: fire < end, cron.after(Cron(line, tz=tz), start - 1)))


def test_fires_are_later_than_the_moment_and_in_order() -> None:
    noon = utc(2030, 5, 1, 12)
    assert fires("*/15 * * * *", noon, 3) == [noon + n * 15 * MINUTE for n in (1, 2, 3)]
    assert fires("*/15 * * * *", noon - 1, 2) == [noon, noon + 15 * MINUTE]
    assert fires("*/15 * * * *", noon + 1, 1) == [noon + 15 * MINUTE]


def test_six_fields_begin_with_seconds() -> None:
    noon = utc(2030, 5, 1, 12)
    assert fires("*/20 * * * * *", noon, 3) == [noon + n * 20 * SECOND for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("nickname", "line"),
    [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@Midnight ", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 JAN *"),
        ("@annually", "0 0 1 JAN *"),
    ],
)
def test_a_nickname_is_the_line_that_every_cron_knows_it_for(nickname: str, line: str) -> None:
    cron.check(Cron(nickname))
    start = utc(2030, 5, 1, 12)
    assert fires(nickname, start, 5, "Europe/Madrid") == fires(line, start, 5, "Europe/Madrid")
    assert cron.in_words(Cron(nickname)) == cron.in_words(Cron(line))


def test_working_days_at_nine_in_madrid() -> None:
    start = utc(2030, 3, 28)  # a Thursday; clocks change on Sunday the 31st
    nine = [utc(2030, 3, 28, 8), utc(2030, 3, 29, 8), utc(2030, 4, 1, 7), utc(2030, 4, 2, 7)]
    assert fires("0 9 * * MON-FRI", start, 4, "Europe/Madrid") == nine


def test_a_local_time_that_does_not_exist_fires_once_right_after_the_gap() -> None:
    start = utc(2030, 3, 9, 12)
    assert fires("30 2 * * *", start, 3, NEW_YORK) == [
        utc(2030, 3, 10, 7),
        utc(2030, 3, 11, 6, 30),
        utc(2030, 3, 12, 6, 30),
    ]


def test_a_local_time_that_exists_twice_fires_once_the_earlier() -> None:
    start = utc(2030, 11, 2, 12)
    assert fires("30 1 * * *", start, 2, NEW_YORK) == [
        utc(2030, 11, 3, 5, 30),
        utc(2030, 11, 4, 6, 30),
    ]


def test_patterns_that_name_an_interval_keep_it_through_both_changes() -> None:
    for day in (utc(2030, 3, 10, 5), utc(2030, 11, 3, 4)):
        line = fires("*/10 * * * *", day - 1, 6 * 25, NEW_YORK)
        assert line == [day + n * 10 * MINUTE for n in range(6 * 25)]
        hours = fires("15 * * * *", day, 25, NEW_YORK)
        assert {later - earlier for earlier, later in pairwise(hours)} == {HOUR}


def expected_daily(day: date, hour: int, minute: int, tz: str) -> Moment:
    """By brute force: the first moment of that day at which a wall clock shows the time, or has
    jumped over it."""
    zone, wanted = cron.zone(tz), (hour, minute)
    start = moment(datetime(day.year, day.month, day.day, tzinfo=UTC)) - 14 * HOUR
    for step in range(0, 52 * HOUR, MINUTE):
        shown = datetime.fromtimestamp((start + step) // SECOND, UTC).astimezone(zone)
        if shown.date() == day and (shown.hour, shown.minute) >= wanted:
            return start + step
    raise AssertionError(f"{day} has no end in {tz}")


@given(
    tz=st.sampled_from(ZONES),
    day=st.dates(date(2024, 1, 2), date(2034, 12, 30)),
    hour=st.integers(0, 3),
    minute=st.sampled_from([0, 10, 30, 59]),
)
@settings(max_examples=60)
def test_a_daily_line_fires_once_each_day_as_a_walk_over_the_minutes_says(
    tz: str, day: date, hour: int, minute: int
) -> None:
    """I7"""
    days = [day + timedelta(days=n) for n in range(-1, 2)]
    expected = [expected_daily(each, hour, minute, tz) for each in days]
    assert between(f"{minute} {hour} * * *", expected[0], expected[-1] + MINUTE, tz) == expected


@pytest.mark.parametrize("tz", ZONES)
@pytest.mark.parametrize("line", ["30 2 * * *", "15 0 * * *", "45 1 * * *", "0 23 * * *"])
def test_a_daily_line_fires_as_often_as_the_year_has_days(line: str, tz: str) -> None:
    """I7: neither twice in autumn nor never in spring."""
    start, end = (datetime(year, 1, 1, tzinfo=cron.zone(tz)) for year in (2030, 2032))
    assert len(between(line, moment(start), moment(end), tz)) == 365 * 2


@given(
    line=st.sampled_from(
        ["*/7 * * * *", "0 */5 * * *", "30 2 * * 0", "0 0 1 * *", "5,35 1-3 * * *"]
    ),
    tz=st.sampled_from(ZONES),
)
def test_it_does_not_matter_where_the_search_begins(line: str, tz: str) -> None:
    """I7: a scheduler that starts anew goes on where the last one stopped."""
    start = utc(2030, 10, 26)
    first = fires(line, start, 12, tz)
    assert [fires(line, fire, 1, tz)[0] for fire in first[:-1]] == first[1:]
    assert first == sorted(set(first))


@pytest.mark.parametrize(
    "name", ["UTC", "Europe/Madrid", "+02:00", "-0330", "+14:00", "America/Argentina/Buenos_Aires"]
)
def test_names_and_offsets_are_zones(name: str) -> None:
    at = datetime(2030, 7, 1, tzinfo=UTC)
    assert cron.zone(name).utcoffset(at.replace(tzinfo=None)) is not None


def test_an_offset_is_what_it_says() -> None:
    assert cron.zone("+05:45").utcoffset(None) == timedelta(hours=5, minutes=45)
    assert cron.zone("-03:30").utcoffset(None) == -timedelta(hours=3, minutes=30)
    assert cron.zone("Europe/Madrid") == ZoneInfo("Europe/Madrid")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Europe/Atlantis",
        "Europe",
        "../etc/passwd",
        "/etc/passwd",
        "+25:00",
        "+02:75",
        "2",
        "a\0b",
        "CEST!",
    ],
)
def test_an_unknown_zone_is_refused_with_advice(name: str) -> None:
    with pytest.raises(UsageError, match=r"time zone .* is not known: use an IANA name"):
        cron.check(Cron("* * * * *", tz=name))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "* * * *",
        "61 * * * *",
        "* * * * * * *",
        "a b c d e",
        "*/0 * * * *",
        "0 0 31 2 *",
        "0 0 * * MOO",
    ],
)
def test_a_line_that_cannot_be_read_is_refused_with_its_text(line: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be read: .* 5 fields"):
        cron.check(Cron(line))


def test_a_line_is_told_in_words() -> None:
    assert cron.in_words(Cron("0 9 * * MON-FRI", tz="Europe/Madrid")).endswith("(Europe/Madrid)")
    assert "09:00" in cron.in_words(Cron("0 9 * * *"))


def test_a_year_is_a_year() -> None:
    assert fires("0 0 29 2 *", utc(2030, 1, 1), 1) == [utc(2032, 2, 29)]
    assert fires("0 0 1 1 *", utc(2030, 1, 1), 1) == [utc(2030, 1, 1) + 365 * DAY]
