"""From how a run ended to what becomes of the job: every row of the table, and what holds for all
of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mita.model.ending import (
    Died,
    Ending,
    Interrupted,
    Lost,
    Raised,
    Rescheduled,
    ResourceUnavailable,
    Returned,
    Stopped,
    TimedOut,
    Unknown,
    Unreadable,
)
from mita.model.job import Claim, State
from mita.model.outcome import Counter, Verdict
from mita.model.policy import Retry
from mita.model.time import DAY, HOUR, SECOND, When
from mita.rules.judge import STRANDED_WAIT_MS, Retention, judge, success
from mita.rules.moves import SLOWED_ROUND_MS, slowed_delay
from mita.rules.retry import backoff
from mita.rules.states import TERMINAL

from .given import NOON, claim, claims, endings, packed_options, retries, whens

ROLLS = st.floats(0, 1)
KEEP = Retention(succeeded=5 * SECOND, failed=7 * DAY)
PLAIN = Retry(jitter="none", base=1, cap=60, max_retries=2, max_crashes=1)


def after(ending: Ending, roll: float = 1.0, retry: Retry = PLAIN, **more: object) -> Verdict:
    return judge(claim(retry, **more), ending, KEEP, roll)


def test_a_returned_value_succeeds_and_is_kept() -> None:
    assert after(Returned(b"x")) == success(b"x", KEEP.succeeded)


def test_an_error_is_tried_again_after_the_backoff() -> None:
    verdict = after(Raised("Boom: no\nline 2"), attempts=1)
    assert (verdict.state, verdict.when, verdict.counts) == (
        State.QUEUED,
        When(2000),
        Counter.ATTEMPTS,
    )
    assert (verdict.error, verdict.event) == ("Boom: no\nline 2", "retried")
    assert verdict.note == "Boom: no; retry 2 of 2 in 2 s"


def test_the_budget_is_one_run_and_then_the_retries() -> None:
    states = [after(Raised("Boom"), attempts=n).state for n in range(4)]
    assert states == [State.QUEUED, State.QUEUED, State.FAILED, State.FAILED]
    assert after(Raised("Boom"), retry=Retry(max_retries=0)).state is State.FAILED


def test_a_job_that_used_up_its_retries_is_kept_among_the_dead() -> None:
    verdict = after(Raised("Boom\nmore"), attempts=2)
    assert (verdict.state, verdict.counts, verdict.keep) == (
        State.FAILED,
        Counter.ATTEMPTS,
        KEEP.failed,
    )
    assert (verdict.error, verdict.event, verdict.note) == ("Boom\nmore", "failed", "Boom")


def test_a_final_error_fails_at_once() -> None:
    verdict = after(Raised("Abort", final=True))
    assert (verdict.state, verdict.counts) == (State.FAILED, Counter.ATTEMPTS)


def test_a_tasks_own_wait_wins_over_the_backoff() -> None:
    assert after(Raised("Boom", wait=77)).when == When(77)
    assert after(Raised("Boom", wait=0)).when == When(0)
    assert after(Raised("Boom", wait=77), attempts=2).state is State.FAILED


def test_a_time_out_is_an_error_like_any_other() -> None:
    verdict = after(TimedOut(2.5))
    assert (verdict.state, verdict.counts, verdict.when) == (
        State.QUEUED,
        Counter.ATTEMPTS,
        When(1000),
    )
    assert verdict.error is not None
    assert "2.5 s" in verdict.error
    assert after(TimedOut(2.5), attempts=2).state is State.FAILED


@given(claim=claims(), when=whens(), roll=ROLLS)
def test_a_job_that_moves_itself_goes_back_at_that_time_whatever_happened_before(
    claim: Claim, when: When, roll: float
) -> None:
    """I6; what a job that asks for no delay too often gets instead is in `test_moves`."""
    verdict = judge(claim, Rescheduled(when), KEEP, roll)
    if slowed_delay(claim, when, 0.0) is not None:
        when = When(SLOWED_ROUND_MS)
    assert (verdict.state, verdict.when, verdict.counts) == (
        State.QUEUED,
        when,
        Counter.RESCHEDULES,
    )
    assert (verdict.error, verdict.event) == (None, "rescheduled")


def test_a_reason_to_move_is_told() -> None:
    assert after(Rescheduled(When(1), "the partner sleeps")).note == "the partner sleeps"
    assert after(Rescheduled(When(1))).note == "by its handler"


def test_a_resource_that_is_away_stops_everybody_of_the_key() -> None:
    verdict = after(ResourceUnavailable(When(500), "429"), resource="partner")
    assert (verdict.state, verdict.hold, verdict.counts) == (State.BLOCKED, When(500), Counter.BUSY)
    assert (verdict.event, verdict.note) == ("unavailable", "429")


def test_without_a_key_only_the_job_itself_waits() -> None:
    verdict = after(ResourceUnavailable(When(500)))
    assert (verdict.state, verdict.when, verdict.hold, verdict.counts) == (
        State.QUEUED,
        When(500),
        None,
        Counter.BUSY,
    )


def test_a_shutdown_gives_the_job_back_as_it_was() -> None:
    verdict = after(Interrupted(started=True))
    assert (verdict.state, verdict.when, verdict.counts) == (
        State.QUEUED,
        None,
        Counter.INTERRUPTIONS,
    )
    assert after(Interrupted(started=False)) == Verdict(state=State.QUEUED, unstarted=True), (
        "it was only held for a moment"
    )


@pytest.mark.parametrize("ending", [Lost(), Died("it was killed by SIGKILL")])
def test_a_crash_has_its_own_budget(ending: Ending) -> None:
    verdict = after(ending, attempts=2)
    assert (verdict.state, verdict.counts, verdict.when) == (
        State.QUEUED,
        Counter.CRASHES,
        When(1000),
    )
    assert verdict.event == "crashed"
    verdict = after(ending, crashes=1)
    assert (verdict.state, verdict.counts, verdict.keep) == (
        State.FAILED,
        Counter.CRASHES,
        KEEP.failed,
    )
    assert verdict.error is not None
    assert "crash 2 of this job" in verdict.error


def test_a_stopped_run_is_cancelled() -> None:
    verdict = after(Stopped())
    assert (verdict.state, verdict.counts, verdict.keep) == (State.CANCELLED, None, KEEP.failed)
    assert verdict.event == "cancelled"


def test_what_cannot_be_read_is_parked_in_sight() -> None:
    """I15"""
    verdict = after(Unreadable("Unreadable: not MessagePack"))
    assert (verdict.state, verdict.counts, verdict.keep) == (State.FAILED, None, KEEP.failed)
    assert verdict.error == "Unreadable: not MessagePack"


def test_a_job_of_an_unknown_task_is_left_for_others_until_the_grace_is_over() -> None:
    """I15"""
    wait = When(STRANDED_WAIT_MS)
    left = Verdict(state=State.QUEUED, when=wait, stranded=True, unstarted=True)
    assert after(Unknown()) == left
    assert after(Unknown(), stranded=NOON - HOUR + 1) == left
    dead = after(Unknown(), stranded=NOON - HOUR)
    assert (dead.state, dead.counts) == (State.FAILED, None)
    assert dead.error is not None
    assert "'send' for 60 min" in dead.error
    assert judge(claim(stranded=NOON), Unknown(), KEEP, 0, grace=0).state is State.FAILED


@given(claim=claims(), ending=endings(), roll=ROLLS)
def test_only_failures_count_as_attempts(claim: Claim, ending: Ending, roll: float) -> None:
    """I6"""
    counted = judge(claim, ending, KEEP, roll).counts is Counter.ATTEMPTS
    assert counted == isinstance(ending, Raised | TimedOut)


@given(claim=claims(), ending=endings(), roll=ROLLS)
def test_a_verdict_is_whole(claim: Claim, ending: Ending, roll: float) -> None:
    """What ends is kept as long as it should be, what goes on is not; nothing waits for less than
    no time."""
    verdict = judge(claim, ending, KEEP, roll)
    assert verdict.is_plain_success == (verdict.state is State.SUCCEEDED)
    if verdict.state in TERMINAL:
        assert verdict.keep == (KEEP.succeeded if verdict.state is State.SUCCEEDED else KEEP.failed)
        assert (verdict.when, verdict.hold, verdict.stranded) == (None, None, False)
    else:
        assert (verdict.keep, verdict.result) == (0, None)
        assert verdict.when is None or verdict.when.wait >= 0
    assert (verdict.state is State.FAILED) <= (verdict.error is not None)
    assert (verdict.state is State.BLOCKED) == (verdict.hold is not None)
    assert "\n" not in verdict.note


@given(claim=claims(), error=st.text(min_size=1), retry=retries(), roll=ROLLS)
def test_a_retry_waits_as_the_backoff_says(
    claim: Claim, error: str, retry: Retry, roll: float
) -> None:
    verdict = judge(replace(claim, options=packed_options(retry)), Raised(error), KEEP, roll)
    if claim.attempts < retry.max_retries:
        assert verdict.when == When(backoff(retry, claim.attempts + 1, roll))
    else:
        assert verdict.state is State.FAILED
