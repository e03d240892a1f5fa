"""To which minute or hour a count belongs, and how counts are added."""

from hypothesis import given
from hypothesis import strategies as st

from mita.model.history import SPANS_KEPT_MS, RunCounts
from mita.model.time import DAY, HOUR, MINUTE
from mita.rules.history import (
    NUMBERS,
    begin,
    first_shown,
    is_wanted,
    numbers_of,
    span_of,
    stored_counts,
    summed,
    totals,
)

MOMENTS = st.integers(0, 10**13)


@given(MOMENTS, st.sampled_from([MINUTE, HOUR]))
def test_a_minute_begins_when_the_seconds_are_zero(moment: int, span: int) -> None:
    start = begin(moment, span)
    assert start % span == 0
    assert start <= moment < start + span


@given(MOMENTS, MOMENTS, st.booleans())
def test_nothing_is_shown_from_before_since_or_from_before_the_retention(
    since: int, now: int, hourly: bool
) -> None:
    span = span_of(hourly)
    first = first_shown(since, now, span)
    assert first % span == 0
    assert first + span > max(since, now - SPANS_KEPT_MS[span])
    assert first <= max(since, now - SPANS_KEPT_MS[span], 0)


def test_minutes_are_kept_for_a_day_and_hours_for_ninety() -> None:
    now = 1000 * DAY
    assert first_shown(0, now, MINUTE) == now - DAY
    assert first_shown(0, now, HOUR) == now - 90 * DAY


def test_every_number_has_its_place() -> None:
    stored = stored_counts(7, "q", "t", range(len(NUMBERS)))
    assert [getattr(stored, name) for name in NUMBERS] == list(range(len(NUMBERS)))
    assert numbers_of(stored) == list(range(len(NUMBERS)))


def test_totals_are_added_by_pair_and_sorted() -> None:
    pairs = [("b", "x"), ("a", "y"), ("b", "x"), ("a", "x")]
    found = totals([RunCounts(queue=queue, task=task, failed=1) for queue, task in pairs])
    assert {pair: numbers[1] for pair, numbers in found.items()} == {
        ("a", "x"): 1,
        ("a", "y"): 1,
        ("b", "x"): 2,
    }
    assert list(found) == sorted(found)
    assert list(totals([RunCounts(queue="A", task="t")], str.lower)) == [("a", "t")]
    assert summed(None, (1, 2)) == [1, 2]


def test_an_empty_name_is_a_name_and_none_is_any() -> None:
    assert is_wanted("", "", "", "")
    assert not is_wanted("q", "t", "", None)
    assert is_wanted("q", "t", None, None)
