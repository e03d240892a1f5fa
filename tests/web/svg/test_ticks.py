from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mita.web.svg.ticks import round_numbers, round_times, short_number, time_text

NOW = datetime(2026, 11, 16, 17, 42, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("highest", "numbers"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (3, [0, 1, 2, 3]),
        (7, [0, 2, 4, 6, 8]),
        (61, [0, 20, 40, 60, 80]),
        (1450, [0, 500, 1000, 1500]),
        (float("nan"), [0, 1]),
        (float("inf"), [0, 1]),
        (-4, [0, 1]),
    ],
)
def test_an_axis_has_round_numbers(highest: float, numbers: list[float]) -> None:
    assert round_numbers(highest) == numbers


@given(st.floats(min_value=0.01, max_value=1e12))
def test_an_axis_is_high_enough_and_has_few_lines(highest: float) -> None:
    numbers = round_numbers(highest)
    assert numbers[-1] >= highest
    assert 2 <= len(numbers) <= 5


def test_large_numbers_are_short() -> None:
    assert [short_number(n) for n in (0, 950, 1500, 20_000, 3_000_000)] == [
        "0",
        "950",
        "1.5k",
        "20k",
        "3M",
    ]


@given(st.integers(min_value=1, max_value=400 * 86_400), st.integers(1, 8))
def test_times_are_inside_and_as_many_as_fit(seconds: int, most: int) -> None:
    end = NOW + timedelta(seconds=seconds)
    times = round_times(NOW, end, most)
    assert len(times) <= most
    assert all(NOW <= at <= end for at in times)
    labels = [time_text(at, NOW, end) for at in times]
    assert all(one != other for one, other in pairwise(labels))


def test_an_hour_has_round_minutes() -> None:
    times = round_times(NOW, NOW + timedelta(hours=1), 8)
    assert [time_text(at, NOW, NOW + timedelta(hours=1)) for at in times] == [
        *("17:50", "18:00", "18:10", "18:20", "18:30", "18:40"),
    ]


def test_days_begin_at_midnight_of_the_zone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    start = datetime(2026, 10, 23, 12, tzinfo=berlin)  # clocks go back on the 25th
    times = round_times(start, start + timedelta(days=5), 8, berlin)
    assert [(at.hour, at.minute) for at in times] == [(0, 0)] * 5


def test_no_time_has_no_ticks() -> None:
    assert round_times(NOW, NOW, 8) == []
    assert round_times(NOW, NOW - timedelta(hours=1), 8) == []


def test_the_last_year_of_the_calendar_is_no_error() -> None:
    end = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    assert all(at <= end for at in round_times(NOW, end, 8))
