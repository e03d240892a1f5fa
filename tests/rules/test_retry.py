"""How long to wait before trying again: within bounds, whatever chance says."""

from random import Random
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mita.errors import UsageError
from mita.model.policy import Jitter, JobOptions, Retry
from mita.model.time import SECOND
from mita.rules.options import options_of
from mita.rules.retry import backoff, ceiling

from .given import retries

ROLLS = st.floats(0, 1)
NTH = st.integers(1, 1000) | st.integers(1, 10**9)


def ms(seconds: float) -> int:
    return round(seconds * SECOND)


@given(retry=retries(), n=NTH, roll=ROLLS)
def test_a_wait_is_never_negative_and_never_over_the_cap(retry: Retry, n: int, roll: float) -> None:
    longest = max(retry.waits) if retry.waits else retry.cap
    assert 0 <= backoff(retry, n, roll) <= ms(longest) + 1


@given(n=NTH, roll=ROLLS, base=st.floats(0, 1000), cap=st.floats(0, 1000))
def test_full_jitter_stays_under_the_doubled_base(
    n: int, roll: float, base: float, cap: float
) -> None:
    assert (
        backoff(Retry(base=base, cap=cap), n, roll)
        <= ms(min(base * 2.0 ** min(n - 1, 200), cap)) + 1
    )


@given(n=NTH, roll=ROLLS, base=st.floats(0, 1000), cap=st.floats(0, 1000))
def test_equal_jitter_stays_in_the_upper_half(n: int, roll: float, base: float, cap: float) -> None:
    retry = Retry(base=base, cap=cap, jitter="equal")
    assert ms(ceiling(retry, n) / 2) - 1 <= backoff(retry, n, roll) <= ms(ceiling(retry, n)) + 1


@given(n=NTH, roll=ROLLS, base=st.floats(0, 1000), cap=st.floats(0, 1000))
def test_decorrelated_jitter_stays_between_base_and_cap(
    n: int, roll: float, base: float, cap: float
) -> None:
    retry = Retry(base=base, cap=cap, jitter="decorrelated")
    assert ms(min(base, cap)) - 1 <= backoff(retry, n, roll) <= ms(cap) + 1


@given(n=NTH, roll=ROLLS, retry=retries())
def test_without_jitter_chance_says_nothing(n: int, roll: float, retry: Retry) -> None:
    plain = Retry(base=retry.base, cap=retry.cap, jitter="none")
    assert backoff(plain, n, roll) == backoff(plain, n, 0) == ms(ceiling(plain, n))


@given(n=st.integers(1, 100), retry=retries())
def test_ceilings_never_shrink(n: int, retry: Retry) -> None:
    plain = Retry(base=retry.base, cap=retry.cap)
    assert ceiling(plain, n) <= ceiling(plain, n + 1)


@given(n=NTH, jitter=st.sampled_from(get_args(Jitter)), first=ROLLS, second=ROLLS)
def test_a_higher_roll_never_waits_shorter(
    n: int, jitter: Jitter, first: float, second: float
) -> None:
    retry = Retry(jitter=jitter)
    low, high = sorted((first, second))
    assert backoff(retry, n, low) <= backoff(retry, n, high)


def test_the_defaults_double_from_half_a_second_to_half_a_minute() -> None:
    assert [backoff(Retry(), n, 1.0) for n in range(1, 9)] == [
        500,
        1000,
        2000,
        4000,
        8000,
        16000,
        30000,
        30000,
    ]
    assert backoff(Retry(), 5, 0.0) == 0


def test_waits_can_be_given_one_by_one_and_the_last_repeats() -> None:
    retry = Retry(waits=(1, 0.5, 60), jitter="full", cap=2)
    assert [backoff(retry, n, 0.1) for n in (1, 2, 3, 4, 1000)] == [
        1000,
        500,
        60_000,
        60_000,
        60_000,
    ]


def test_full_jitter_spreads_evenly() -> None:
    """F41: a herd that failed together must not come back together. Kolmogorov-Smirnov, at one per
    cent."""
    chance, n = Random(42), 2000
    retry = Retry(base=8, cap=3600)
    waits = sorted(backoff(retry, 4, chance.random()) / (64 * SECOND) for _ in range(n))
    furthest = max(max((i + 1) / n - x, x - i / n) for i, x in enumerate(waits))
    assert furthest < 1.63 / n**0.5
    crowded = sorted(x * x for x in waits)
    assert max(abs((i + 1) / n - x) for i, x in enumerate(crowded)) > 1.63 / n**0.5, (
        "the test can tell"
    )


@pytest.mark.parametrize(
    ("args", "parts", "says"),
    [
        ((5,), {}, r"Retry\(5,\): give each part by name, Retry\(max_retries="),
        ((), {"max_retry": 5}, r"no part 'max_retry', did you mean 'max_retries'\?"),
        ((), {"forever": True}, r"no part 'forever'\. It takes max_retries, base, cap"),
    ],
)
def test_parts_are_given_by_their_names(
    args: tuple[Any, ...], parts: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError, match=says):
        Retry(*args, **parts)


def test_a_huge_number_of_tries_is_still_a_number() -> None:
    for jitter in get_args(Jitter):
        assert 0 <= backoff(Retry(base=1e-9, cap=30, jitter=jitter), 10**18, 1.0) <= 30_000


@pytest.mark.parametrize("field", ["base", "cap"])
@pytest.mark.parametrize("value", [-1.0, -1e-9, float("nan"), float("inf"), 1e300])
def test_a_wait_that_is_none_is_refused(field: str, value: float) -> None:
    """I15: what no store could write down must not get as far as a worker."""
    with pytest.raises(UsageError, match="base, cap and waits are seconds"):
        Retry(**{field: value})  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="base, cap and waits are seconds"):
        Retry(waits=(1, value))


@pytest.mark.parametrize(
    "options",
    [
        {"max_retries": -1},
        {"max_retries": 1001},
        {"max_retries": 1.5},
        {"max_retries": "3"},
        {"max_crashes": -1},
        {"max_crashes": None},
        {"jitter": "some"},
        {"base": "1"},
        {"waits": 5},
        {"waits": (1, "10")},
        {"wait": 3},
    ],
)
def test_a_budget_that_is_none_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        Retry(**options)


def test_waits_may_be_a_list() -> None:
    wanted: Any = [1, 10, 60]
    assert hash(Retry(waits=wanted)) == hash(Retry(waits=(1, 10, 60)))


def test_stored_settings_that_this_version_would_refuse_are_taken_as_the_defaults() -> None:
    """I15: a newer version may allow more."""
    for stored in (
        {"retry": {"max_retries": 1_000_000}},
        {"retry": {"jitter": "triangular"}},
        {"retry": 3},
        "nonsense",
    ):
        assert options_of(msgspec.msgpack.encode(stored)) == JobOptions(secret=True)
