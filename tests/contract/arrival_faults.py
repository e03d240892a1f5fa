"""Arrivals that are broken on purpose."""

from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from mita.model.flow import Arrival
from mita.model.job import State
from mita.model.outcome import Answer, RetryJob, Settlement
from mita.model.time import LATEST
from mita.rules.durable import arrival_name
from mita.stores.memory import amend as amending
from mita.stores.memory import claim as claiming
from mita.stores.memory.context import MemoryContext
from mita.stores.memory.state.memory_state import MemoryRecord

from .faults import Fault, said_as

Act = Callable[[MemoryContext, Arrival], Answer]


def _instead(
    patch: pytest.MonkeyPatch, broken: Callable[[Act, MemoryContext, Arrival], Answer]
) -> None:
    """Put this in the place of the function that stores one arrival, which it gets."""
    whole = amending._arrive
    patch.setattr(amending, "_arrive", lambda context, one: broken(whole, context, one))


def count_twice(patch: pytest.MonkeyPatch) -> None:
    """A sender that comes again is another one."""

    def arrive(whole: Act, context: MemoryContext, one: Arrival) -> Answer:
        record = context.state.records.get(one.receiver)
        known = record is not None and arrival_name(one.sender) in record.once_values
        return whole(context, replace(one, sender=one.sender + " again") if known else one)

    _instead(patch, arrive)


def replace_the_first(patch: pytest.MonkeyPatch) -> None:
    def arrive(whole: Act, context: MemoryContext, one: Arrival) -> Answer:
        record = context.state.records.get(one.receiver)
        answer = whole(context, one)
        if record is not None and answer is Answer.TAKEN:
            record.once_values[arrival_name(one.sender)] = one.value
        return answer

    _instead(patch, arrive)


def lose(patch: pytest.MonkeyPatch) -> None:
    """It is answered, and nothing is stored."""

    def arrive(whole: Act, context: MemoryContext, one: Arrival) -> Answer:
        return Answer.DONE if one.needs > 1 and one.sender == "a" else whole(context, one)

    _instead(patch, arrive)


def lose_at_a_running_job(patch: pytest.MonkeyPatch) -> None:
    def arrive(whole: Act, context: MemoryContext, one: Arrival) -> Answer:
        record = context.state.records.get(one.receiver)
        if record is not None and record.job.state is State.RUNNING:
            return Answer.DONE
        return whole(context, one)

    _instead(patch, arrive)


def lose_at_a_cancelled_job(patch: pytest.MonkeyPatch) -> None:
    def arrive(whole: Act, context: MemoryContext, one: Arrival) -> Answer:
        record = context.state.records.get(one.receiver)
        if record is not None and record.job.state is State.CANCELLED:
            return Answer.TOO_LATE
        return whole(context, one)

    _instead(patch, arrive)


def release_early(patch: pytest.MonkeyPatch) -> None:
    """The last but one arrival starts the job."""
    _instead(patch, lambda whole, context, one: whole(context, replace(one, needs=one.needs - 1)))


def release_late(patch: pytest.MonkeyPatch) -> None:
    _instead(patch, lambda whole, context, one: whole(context, replace(one, needs=one.needs + 1)))


def release_by_other_values(patch: pytest.MonkeyPatch) -> None:
    """Every value of the job counts, whatever its name is."""
    patch.setattr(amending, "count_arrivals", len)


def start_what_was_cancelled(patch: pytest.MonkeyPatch) -> None:
    def arrive(whole: Act, context: MemoryContext, one: Arrival) -> Answer:
        record = context.state.records.get(one.receiver)
        if record is not None and record.job.state is State.CANCELLED:
            context.change(record, state=State.QUEUED, due=LATEST)
        return whole(context, one)

    _instead(patch, arrive)


def keep_under_the_wrong_sender(patch: pytest.MonkeyPatch) -> None:
    """Two results change places."""
    other = {"a": "b", "b": "a"}

    def arrive(whole: Act, context: MemoryContext, one: Arrival) -> Answer:
        return whole(context, replace(one, sender=other.get(one.sender, one.sender)))

    _instead(patch, arrive)


def forget_at_a_retry(patch: pytest.MonkeyPatch) -> None:
    whole = amending._retry

    def retry(context: MemoryContext, record: MemoryRecord, change: RetryJob) -> Answer:
        record.once_values.clear()
        return whole(context, record, change)

    patch.setattr(amending, "_retry", retry)


def wake_nobody(patch: pytest.MonkeyPatch) -> None:
    def arrive(whole: Act, context: MemoryContext, one: Arrival) -> Answer:
        topics = set(context.topics)
        answer = whole(context, one)
        context.topics.intersection_update(topics)
        return answer

    _instead(patch, arrive)


def tell_although_stale(patch: pytest.MonkeyPatch) -> None:
    def told_by(settlements: Sequence[Settlement], took: Sequence[bool]) -> list[Arrival]:
        return [arrival for one in settlements for arrival in one.arrivals]

    patch.setattr(claiming, "told_by", told_by)


def settle_and_tell_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(claiming, "told_by", lambda settlements, took: [])


OF_ARRIVALS = [
    Fault(
        "a stale settlement that tells",
        tell_although_stale,
        ("test_a_stale_settlement_tells_nothing",),
    ),
    Fault(
        "a settlement that does not tell",
        settle_and_tell_nothing,
        (
            "test_a_settlement_tells_what_it_has_to_tell",
            "test_what_a_settlement_could_not_tell_is_returned",
        ),
    ),
    Fault(
        "an arrival that is counted twice",
        count_twice,
        ("test_an_arrival_counts_once", "test_a_sender_that_comes_twice_in_one_call_counts_once"),
    ),
    Fault(
        "an arrival that replaces the first", replace_the_first, ("test_an_arrival_counts_once",)
    ),
    Fault(
        "an arrival that is lost",
        lose,
        ("test_the_last_arrival_starts_the_job", "test_arrivals_of_one_call"),
    ),
    Fault(
        "an arrival that a running job does not get",
        lose_at_a_running_job,
        ("test_an_arrival_at_a_running_job_is_kept",),
    ),
    Fault(
        "an arrival that a cancelled job does not keep",
        lose_at_a_cancelled_job,
        ("test_a_job_that_waits_for_others_can_be_cancelled_and_brought_back",),
    ),
    Fault(
        "a release before the last predecessor",
        release_early,
        ("test_the_last_arrival_starts_the_job", "test_an_arrival_counts_once"),
    ),
    Fault(
        "a release that never comes",
        release_late,
        ("test_the_last_arrival_starts_the_job", "test_arrivals_at_the_same_time"),
    ),
    Fault(
        "a release by a value that is no arrival",
        release_by_other_values,
        ("test_only_arrivals_start_a_job_that_waits_for_others",),
    ),
    Fault(
        "an arrival that starts a cancelled job",
        start_what_was_cancelled,
        ("test_the_last_arrival_at_a_job_that_was_cancelled_does_not_start_it",),
    ),
    Fault(
        "a result that is kept under the wrong sender",
        keep_under_the_wrong_sender,
        ("test_values_of_two_senders_stay_apart",),
    ),
    Fault(
        "a retry that forgets what the job was told",
        forget_at_a_retry,
        ("test_a_job_that_waits_for_others_can_be_cancelled_and_brought_back",),
    ),
    Fault(
        "an arrival that wakes no worker",
        wake_nobody,
        ("test_the_last_arrival_notifies_the_workers_of_the_queue",),
    ),
]

IN_SQL = [
    Fault(
        "an early release",
        said_as(arrive_enough=("'$[1]') <=", "'$[1]') - 1 <=")),
        ("test_the_last_arrival_starts_the_job",),
    ),
    Fault(
        "a release that counts other values",
        said_as(arrive_enough=("o.job = j.seq and o.name >=", "o.job = j.seq or o.name >=")),
        ("test_only_arrivals_start_a_job_that_waits_for_others",),
    ),
]
