"""The rate of a worker is what was counted over a window, which is shown with it."""

from collections import Counter

from mita.engine.rates import RATE_WINDOW_S, Rates


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_worker_that_has_just_started_has_no_rate() -> None:
    assert Rates(Clock()).measure(Counter(mail=1)) == ({}, 0)


def test_a_rate_is_right_at_any_point_in_time() -> None:
    clock = Clock()
    rates = Rates(clock)
    ended: Counter[str] = Counter()
    for _ in range(600):  # ten reads a second, a run after every fifth
        clock.now += 0.1
        ended["mail"] += round(clock.now * 10) % 5 == 0
        found, window = rates.measure(ended)
        if window >= 5_000:
            assert abs(found["mail"] - 2.0) <= 1 / (window / 1000), (found, window)
    assert RATE_WINDOW_S * 1000 <= window <= RATE_WINDOW_S * 1000 + 1000


def test_a_rate_covers_only_the_last_window() -> None:
    clock = Clock()
    rates = Rates(clock)
    clock.now += RATE_WINDOW_S
    assert rates.measure(Counter(mail=1000)) == ({"mail": 100.0}, 10_000)
    clock.now += RATE_WINDOW_S
    assert rates.measure(Counter(mail=1000, web=5)) == ({"mail": 0.0, "web": 0.5}, 10_000)


def test_a_pause_between_two_reads_is_in_the_window() -> None:
    clock = Clock()
    rates = Rates(clock)
    clock.now += 3 * RATE_WINDOW_S
    assert rates.measure(Counter(mail=30)) == ({"mail": 1.0}, 30_000)
