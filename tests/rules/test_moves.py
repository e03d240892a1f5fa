"""Handlers that reschedule themselves: how often they may, and how fast."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mita.model.ending import Rescheduled
from mita.model.job import State
from mita.model.outcome import Counter, Verdict
from mita.model.policy import JobOptions
from mita.model.time import NOW, SECOND, When
from mita.rules.judge import Retention, judge
from mita.rules.moves import FREE_MOVES, SHORTEST_DELAY_MS, SLOWED, slowed_delay

from .given import NOON, claim, whens

KEEP = Retention()


def after_move(when: When = NOW, *, spent: float = 0.0, reason: str = "", **more: Any) -> Verdict:
    return judge(claim(**more), Rescheduled(when, reason), KEEP, 1.0, spent=spent)


def test_the_first_moves_are_as_quick_as_they_ask_to_be() -> None:
    for moves in range(FREE_MOVES):
        assert after_move(reschedules=moves).when == When()


@pytest.mark.parametrize("when", [When(), When(SHORTEST_DELAY_MS - 1), When(at=NOON - 1)])
def test_then_a_job_that_asks_for_no_delay_runs_once_per_second(when: When) -> None:
    verdict = after_move(when, reschedules=FREE_MOVES, reason="not yet")
    assert (verdict.state, verdict.counts) == (State.QUEUED, Counter.RESCHEDULES)
    assert verdict.when == When(SECOND)
    assert verdict.note == f"{SLOWED}; not yet"


def test_from_start_to_start() -> None:
    assert after_move(reschedules=FREE_MOVES, spent=0.25).when == When(750)
    assert after_move(reschedules=FREE_MOVES, spent=1.5).when == When(), "a slow run is not slowed"


@given(when=whens(), moves=st.integers(0, 100), spent=st.floats(0, 3))
def test_nothing_else_is_slowed_and_nothing_is_made_quicker(
    when: When, moves: int, spent: float
) -> None:
    now = NOON + round(spent * SECOND)
    delay = slowed_delay(claim(reschedules=moves), when, spent)
    if moves < FREE_MOVES or when.moment(now) - now > SHORTEST_DELAY_MS:
        assert delay is None
    if delay is not None:
        assert delay > when.moment(now) - now - 2
        assert delay <= SECOND


def test_a_handler_that_keeps_moving_itself_fails_at_its_limit() -> None:
    options = msgspec.msgpack.encode(JobOptions(max_reschedules=3))
    assert after_move(When(SECOND), options=options, reschedules=2).state is State.QUEUED
    verdict = after_move(When(SECOND), options=options, reschedules=3)
    assert (verdict.state, verdict.counts, verdict.keep) == (State.FAILED, None, KEEP.failed)
    assert (verdict.error or "").startswith("TooManyReschedules: ")
    assert "max_reschedules is 3" in (verdict.error or "")
