"""From what people say about time to a `When`."""

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mita.errors import UsageError
from mita.model.time import LONGEST, NOW, SECOND, When
from mita.rules.when import moment, wait, when

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2199, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(ms=st.integers(0, 7_000_000_000_000))
def test_a_moment_survives_the_way_there_and_back(ms: int) -> None:
    """To the millisecond, or a job that is moved to where it was would creep away."""
    assert moment(EPOCH + timedelta(milliseconds=ms)) == ms


@given(at=MOMENTS)
def test_a_moment_is_never_early_and_less_than_a_millisecond_late(at: datetime) -> None:
    """I8"""
    late = timedelta(milliseconds=moment(at)) - (at - EPOCH)
    assert timedelta(0) <= late < timedelta(milliseconds=1)


def test_a_moment_is_the_same_in_every_zone() -> None:
    at = datetime(2030, 6, 1, 12, tzinfo=UTC)
    zones = (
        ZoneInfo("America/New_York"),
        timezone(timedelta(hours=-5)),
        ZoneInfo("Asia/Kathmandu"),
    )
    assert {moment(at.astimezone(zone)) for zone in zones} == {moment(at)}


def test_the_two_hours_that_look_alike_are_told_apart() -> None:
    madrid = ZoneInfo("Europe/Madrid")
    first, second = (datetime(2030, 10, 27, 2, 30, tzinfo=madrid, fold=fold) for fold in (0, 1))
    assert moment(second) - moment(first) == 3600 * SECOND


def test_a_naive_time_is_an_error_that_says_so() -> None:
    with pytest.raises(
        UsageError, match=r"at=.* has no time zone: write for example datetime\.now\(UTC\)"
    ):
        when(at=datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(UsageError, match="until="):
        when(at=datetime(2030, 1, 1), named="until")  # noqa: DTZ001


@pytest.mark.parametrize(
    "at", [date(2030, 1, 1), 1_893_456_000, "2030-01-01T00:00:00Z", timedelta(1)]
)
def test_a_moment_is_a_datetime(at: object) -> None:
    with pytest.raises(UsageError, match="is not a datetime"):
        when(at=at)  # type: ignore[arg-type]


def test_it_is_one_of_the_two() -> None:
    with pytest.raises(UsageError, match="either at"):
        when()
    with pytest.raises(UsageError, match="not both"):
        when(at=EPOCH, after=1)


@pytest.mark.parametrize(
    ("after", "ms"),
    [
        (0, 0),
        (1, 1000),
        (0.5, 500),
        (timedelta(minutes=1), 60_000),
        (0.0001, 1),
        (timedelta(microseconds=1), 1),
        (65.534, 65_534),
    ],
)
def test_a_wait_is_in_seconds_and_never_early(after: float | timedelta, ms: int) -> None:
    assert when(after=after) == When(ms)


@given(ms=st.integers(0, 10_000_000_000))
def test_a_wait_in_whole_milliseconds_is_kept(ms: int) -> None:
    assert wait("after", ms / 1000) == wait("after", timedelta(milliseconds=ms)) == ms


@pytest.mark.parametrize("after", [-1, -0.001, timedelta(seconds=-1), float("-inf")])
def test_a_negative_wait_is_refused(after: float | timedelta) -> None:
    with pytest.raises(UsageError, match="is negative"):
        when(after=after)


@pytest.mark.parametrize("after", ["1", float("nan"), True, b"1", [1]])
def test_what_is_no_wait_is_refused(after: object) -> None:
    with pytest.raises(UsageError, match="is not a wait"):
        when(after=after)  # type: ignore[arg-type]


@pytest.mark.parametrize("after", [1e300, float("inf"), 1_893_456_000_000, timedelta(days=99_999)])
def test_a_wait_of_centuries_is_a_mistake_in_the_unit(after: float | timedelta) -> None:
    with pytest.raises(UsageError, match="hundred years"):
        when(after=after)
    assert when(after=LONGEST / SECOND) == When(LONGEST)


@given(now=st.integers(0, 10**13), length=st.integers(0, 10**10))
def test_a_wait_counts_from_the_stores_now(now: int, length: int) -> None:
    assert When(length).moment(now) == now + length
    assert NOW.moment(now) == now


@given(now=st.integers(0, 10**13), at=st.integers(0, 10**13))
def test_a_named_moment_is_kept_and_a_past_one_means_now(now: int, at: int) -> None:
    assert When(at=at).moment(now) == max(now, at)
