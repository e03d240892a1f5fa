"""Whether a claim may still start, how long its run may take, and what its deadline does to its
verdict."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mita.model.ending import (
    Ending,
    Expired,
    Interrupted,
    Lost,
    PastDeadline,
    Raised,
    Rescheduled,
    ResourceUnavailable,
    Returned,
    TimedOut,
    Unknown,
)
from mita.model.job import Claim, State
from mita.model.outcome import Counter, TimelineKind, Verdict
from mita.model.policy import JobOptions, Retry
from mita.model.time import DAY, HOUR, MINUTE, SECOND, When
from mita.rules.expiry import deadline_of, expiry_of, refusal, seconds_left
from mita.rules.judge import RELEASE, Retention, judge
from mita.rules.options import PLAIN_OPTIONS, options_of

from .given import NOON, claim, claims, endings

KEEP = Retention(succeeded=5 * SECOND, failed=7 * DAY)


def limited(options: dict[str, Any], **more: Any) -> Claim:
    packed = msgspec.msgpack.encode(JobOptions(**options))
    return claim(**{"options": packed, **more})


def judged(claim: Claim, ending: Ending, spent: float = 0.0) -> Verdict:
    return judge(claim, ending, KEEP, 1.0, spent=spent)


# ---------------------------------------------------------------- expires


@pytest.mark.parametrize(("late", "why"), [(0, None), (60_000, None), (60_001, Expired())])
def test_a_claim_may_start_until_expires_after_its_due_time(late: int, why: Ending | None) -> None:
    assert refusal(limited({"expires": 60.0}, due=NOON - late)) == why


@pytest.mark.parametrize(("spent", "why"), [(0.0, None), (9.9, None), (10.5, Expired())])
def test_the_wait_inside_the_worker_counts(spent: float, why: Ending | None) -> None:
    assert refusal(limited({"expires": 60.0}, due=NOON - 50 * SECOND), spent) == why


@given(claim=claims(), spent=st.floats(0, 1e6))
def test_a_job_without_these_options_may_always_start(claim: Claim, spent: float) -> None:
    assert refusal(claim, spent) is None
    assert (expiry_of(claim), deadline_of(claim), seconds_left(claim, spent)) == (None, None, None)


def test_a_job_that_no_worker_knew_expires_by_the_first_claim() -> None:
    """It becomes due again every two seconds; that must not keep it from expiring."""
    late = {"due": NOON - SECOND, "stranded": NOON - 61 * SECOND}
    assert refusal(limited({"expires": 60.0}, **late)) == Expired()


def test_a_job_that_was_interrupted_after_its_start_does_not_expire() -> None:
    old = {"due": NOON - HOUR, "interruptions": 1}
    assert refusal(limited({"expires": 60.0}, **old)) is None


def test_an_expired_job_is_cancelled_uncounted_and_kept() -> None:
    verdict = judged(limited({"expires": 60.0}), Expired())
    assert (verdict.state, verdict.counts, verdict.error) == (State.CANCELLED, None, None)
    assert (verdict.event, verdict.unstarted, verdict.keep) == (
        TimelineKind.EXPIRED,
        True,
        KEEP.failed,
    )
    assert "60 s" in verdict.note


# ---------------------------------------------------------------- deadline: from when it counts


def test_a_deadline_counts_from_the_first_due_time() -> None:
    hour = {"deadline": 3600.0}
    assert deadline_of(limited(hour)) == NOON + HOUR
    delayed = {**hour, "when": When(MINUTE)}
    assert deadline_of(limited(delayed, due=NOON + MINUTE)) == NOON + HOUR + MINUTE
    fixed = {**hour, "when": When(at=NOON + DAY)}
    assert deadline_of(limited(fixed, due=NOON + DAY)) == NOON + DAY + HOUR
    past = {**hour, "when": When(at=NOON - DAY)}
    assert deadline_of(limited(past)) == NOON + HOUR


def test_retries_and_moves_do_not_extend_it() -> None:
    hour = {"deadline": 3600.0}
    for counter in Counter:
        moved = limited(hour, due=NOON + 50 * MINUTE, **{counter.value: 1})
        assert deadline_of(moved) == NOON + HOUR


def test_a_job_that_a_person_retried_or_moved_behind_it_has_it_again() -> None:
    hour = {"deadline": 3600.0}
    assert deadline_of(limited(hour, due=NOON + MINUTE)) == NOON + MINUTE + HOUR, "retried"
    behind = limited(hour, due=NOON + HOUR, reschedules=1)
    assert deadline_of(behind) == NOON + 2 * HOUR
    later = limited(hour, at=NOON + DAY, due=NOON + DAY, attempts=2)
    assert refusal(later) is None


def test_a_job_without_a_worker_that_knows_it_does_not_look_retried() -> None:
    stranded = limited({"deadline": 3600.0}, due=NOON + MINUTE, stranded=NOON)
    assert deadline_of(stranded) == NOON + HOUR


# ---------------------------------------------------------------- deadline: what it does


def test_a_claim_at_its_deadline_does_not_start() -> None:
    minute = {"deadline": 60.0}
    assert refusal(limited(minute, created=NOON - MINUTE + 1, due=NOON - MINUTE + 1)) is None
    late = limited(minute, created=NOON - MINUTE, due=NOON - MINUTE)
    assert refusal(late) == PastDeadline()
    verdict = judged(late, PastDeadline())
    assert (verdict.state, verdict.counts, verdict.unstarted) == (State.FAILED, None, True)
    assert (verdict.error or "").startswith("DeadlineExceeded: ")
    assert "60 s" in (verdict.error or "")


def test_expiry_comes_before_the_deadline() -> None:
    both = limited({"expires": 1.0, "deadline": 1.0}, created=NOON - HOUR, due=NOON - HOUR)
    assert refusal(both) == Expired()


def test_a_run_may_take_until_its_timeout_or_its_deadline() -> None:
    minute = {"deadline": 60.0, "when": When()}
    assert seconds_left(limited(minute)) == 60.0
    assert seconds_left(limited({**minute, "timeout": 5.0})) == 5.0
    assert seconds_left(limited({**minute, "timeout": 5.0}), spent=58.0) == 2.0
    assert seconds_left(limited(minute), spent=61.0) == 0.0
    assert seconds_left(limited({"timeout": 5.0}), spent=4.0) == 5.0


def test_a_run_that_was_stopped_at_the_deadline_fails_without_a_retry() -> None:
    verdict = judged(limited({"deadline": 60.0}), TimedOut(0.0), spent=60.0)
    assert (verdict.state, verdict.counts) == (State.FAILED, Counter.ATTEMPTS)
    assert verdict.error == "DeadlineExceeded: its run was stopped at its deadline of 60 s"
    early = judged(limited({"deadline": 60.0, "timeout": 5.0}), TimedOut(5.0), spent=5.0)
    assert early.state is State.QUEUED, "a time-out before the deadline is retried"


def test_a_retry_behind_the_deadline_fails_at_once_and_keeps_the_error() -> None:
    retry = Retry(waits=(30.0,), max_retries=5)
    minute = {"deadline": 60.0, "retry": retry}
    assert judged(limited(minute), Raised("Boom: no"), spent=29.0).state is State.QUEUED
    verdict = judged(limited(minute), Raised("Boom: no\n  line 2"), spent=30.0)
    assert (verdict.state, verdict.when, verdict.counts) == (State.FAILED, None, Counter.ATTEMPTS)
    assert verdict.error == (
        "DeadlineExceeded: its next run, in 30 s, would be behind its deadline of 60 s\n"
        "caused by Boom: no\n  line 2"
    )
    assert verdict.keep == KEEP.failed


@pytest.mark.parametrize(
    "ending",
    [Rescheduled(When(HOUR)), Rescheduled(When(at=NOON + HOUR)), ResourceUnavailable(When(HOUR))],
)
def test_a_move_behind_the_deadline_fails_at_once(ending: Ending) -> None:
    verdict = judged(limited({"deadline": 60.0}), ending)
    assert (verdict.state, verdict.counts) == (State.FAILED, None)
    assert "behind its deadline of 60 s" in (verdict.error or "")


def test_a_crash_behind_the_deadline_names_the_worker_that_died() -> None:
    late = {"created": NOON - MINUTE, "due": NOON - MINUTE, "lost": "w1"}
    verdict = judged(limited({"deadline": 61.0, "retry": Retry(waits=(9.0,))}, **late), Lost())
    assert (verdict.state, verdict.counts, verdict.worker) == (State.FAILED, Counter.CRASHES, "w1")
    assert "caused by WorkerLost" in (verdict.error or "")


def test_an_interrupted_run_goes_back_and_fails_when_it_is_claimed_again() -> None:
    verdict = judged(limited({"deadline": 60.0}), Interrupted(started=True), spent=70.0)
    assert (verdict.state, verdict.counts) == (State.QUEUED, Counter.INTERRUPTIONS)


def test_a_result_counts_whenever_it_comes() -> None:
    """A run that was told to stop at its deadline has another ending; this one was not."""
    assert judged(limited({"deadline": 60.0}), Returned(b"x"), spent=70.0).state is State.SUCCEEDED


@given(
    ending=endings(),
    deadline=st.floats(1, 7200),
    spent=st.floats(0, 7200),
    attempts=st.integers(0, 5),
)
def test_no_verdict_gives_a_due_time_behind_the_deadline(
    ending: Ending, deadline: float, spent: float, attempts: int
) -> None:
    mine = limited({"deadline": deadline}, attempts=attempts)
    verdict, end = judged(mine, ending, spent), deadline_of(mine)
    assert end is not None
    if verdict.when is not None and not isinstance(ending, Unknown):
        assert verdict.when.moment(NOON + round(spent * SECOND)) <= end


# ---------------------------------------------------------------- unstarted


def test_what_was_not_started_is_marked() -> None:
    assert RELEASE.unstarted
    assert judged(claim(), Unknown()).unstarted
    assert judged(claim(stranded=NOON - HOUR), Unknown()).unstarted, "also when it fails"
    assert not judged(claim(), Raised("Boom")).unstarted
    assert not judged(claim(), Returned(b"x")).unstarted


def test_a_plain_job_stores_nothing_of_this() -> None:
    assert PLAIN_OPTIONS == b"\x80"
    assert options_of(PLAIN_OPTIONS) == JobOptions()


@pytest.mark.parametrize(
    "stored",
    [
        {"expires": 0.0},
        {"expires": -1.0},
        {"expires": float("nan")},
        {"deadline": float("inf")},
        {"deadline": "soon"},
        {"max_reschedules": 0},
        {"max_reschedules": 1.5},
    ],
)
def test_stored_limits_out_of_bounds_count_as_none(stored: dict[str, Any]) -> None:
    assert options_of(msgspec.msgpack.encode(stored)) == JobOptions(secret=True)
