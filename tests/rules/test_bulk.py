"""Which jobs a bulk run changes, at which rate, and how its counts are stored."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mita.model.job import Job, State
from mita.model.outcome import CancelJob, DeleteJob, RescheduleJob, RetryJob, RewriteJob
from mita.model.record import DisplayState
from mita.model.time import HOUR, NOW
from mita.model.view import JobFilter
from mita.rules.bulk import (
    CHUNK_JOBS,
    BulkCounts,
    added,
    bulk_note,
    changeable,
    chosen_job,
    is_of_run,
    left_out,
    read_counts,
    still_chosen,
    tick_jobs,
    write_counts,
)
from mita.rules.own_tasks import BULK_TASK
from mita.rules.states import ALIVE, DEAD

FAILED = JobFilter(shown=DisplayState.FAILED)
ANY = JobFilter()
RETRY, CANCEL, MOVE = RetryJob(NOW), CancelJob(HOUR), RescheduleJob(NOW)


def job(**more: Any) -> Job:
    given: dict[str, Any] = {"id": "a", "task": "t", "queue": "q", "state": State.FAILED}
    given |= {"priority": 5, "due": 0, "created": 0, "payload": b"", "token": 1, "finished": 10}
    return Job(**given | more)


def waiting(**more: Any) -> Job:
    return job(state=State.QUEUED, finished=None, **more)


def may_change(now: Job, before: Job, change: Any, want: JobFilter) -> bool:
    chosen = chosen_job(before, frozen=100)
    assert chosen is not None
    return still_chosen(now, chosen, change, want, now=200)


def test_a_job_that_has_not_changed_is_changed() -> None:
    assert may_change(job(), job(), RETRY, FAILED)
    assert may_change(waiting(), waiting(), CANCEL, ANY)
    assert may_change(waiting(), waiting(), MOVE, ANY)
    assert may_change(job(), job(), DeleteJob(), ANY)


def test_a_job_that_ran_and_failed_again_is_left_alone() -> None:
    """Also if the clock of the store says the same, and if only the clock has moved."""
    assert not may_change(job(token=2), job(), RETRY, FAILED)
    assert not may_change(job(finished=11), job(), RETRY, FAILED)
    assert not may_change(job(state=State.CANCELLED), job(), RETRY, ANY)


def test_a_job_in_another_state_is_left_alone() -> None:
    for state in (State.QUEUED, State.RUNNING, State.SUCCEEDED):
        assert not may_change(job(state=state, finished=None), job(), RETRY, FAILED)
    assert not may_change(job(), waiting(), RewriteJob(b""), ANY), "it has failed meanwhile"
    ready = JobFilter(shown=DisplayState.READY)
    running = job(state=State.RUNNING, finished=None)
    assert not may_change(running, waiting(), CANCEL, ready)
    assert may_change(running, waiting(), CANCEL, ANY)


def test_a_waiting_job_is_rescheduled_once() -> None:
    assert not may_change(waiting(reschedules=1), waiting(), MOVE, ANY)
    assert may_change(waiting(reschedules=1), waiting(), CANCEL, ANY)


def test_jobs_that_came_or_ended_after_the_choice_are_not_chosen() -> None:
    assert chosen_job(job(finished=101), frozen=100) is None
    assert chosen_job(waiting(created=101), frozen=100) is None
    assert chosen_job(job(finished=100), frozen=100) is not None
    assert chosen_job(job(task=BULK_TASK), frozen=100) is None


def test_only_a_filter_brings_dead_jobs_back_at_another_time() -> None:
    assert changeable(MOVE, ANY) == ALIVE
    assert changeable(MOVE, FAILED) >= DEAD
    assert changeable(MOVE, JobFilter(group="0123456789abcdef")) >= DEAD
    assert changeable(RETRY, ANY) == DEAD


def test_jobs_of_mita_itself_are_left_out_unless_they_are_named() -> None:
    assert BULK_TASK in left_out(CANCEL, ANY)
    assert "mita.flow" in left_out(CANCEL, ANY)
    assert left_out(DeleteJob(), ANY) == {BULK_TASK}
    assert left_out(CANCEL, JobFilter(task="mita.flow")) == ()


@given(st.floats(0.001, 1e9))
def test_a_tick_never_has_more_than_the_rate_allows_in_a_second(rate: float) -> None:
    assert 1 <= tick_jobs(rate) <= CHUNK_JOBS
    assert tick_jobs(rate) <= max(1, rate)


COUNTS = st.dictionaries(
    st.sampled_from(["done", "asked", "too late", "taken", "unreadable", "unknown", "refused"]),
    st.integers(1, 10**9),
)
LINES = st.text().map(lambda text: text.replace("\n", " ").strip())


@given(COUNTS, LINES)
def test_counts_are_read_as_they_were_written(answers: dict[str, int], refusal: str) -> None:
    counts = BulkCounts(answers, refusal)
    assert read_counts(write_counts(counts)) == counts


@given(st.text())
def test_any_message_can_be_read(message: str) -> None:
    read_counts(message)


def test_answers_are_added_and_the_first_refusal_stays() -> None:
    counts = added(added(BulkCounts({}), {"done": 1, "refused": 1}, "why"), {"done": 2}, "other")
    assert counts == BulkCounts({"done": 3, "refused": 1}, "why")


def test_a_run_knows_its_own_notes() -> None:
    assert is_of_run(bulk_note("x1", "it is back"), "x1")
    assert is_of_run(bulk_note("x1", ""), "x1")
    assert not is_of_run(bulk_note("x1", "it is back"), "x2")
    assert not is_of_run("by Ada", "x1")


def test_what_was_chosen_says_how_the_job_was() -> None:
    chosen = chosen_job(replace(job(), reschedules=3), frozen=100)
    assert chosen is not None
    assert (chosen.state, chosen.token, chosen.finished, chosen.reschedules) == (
        State.FAILED,
        1,
        10,
        3,
    )
