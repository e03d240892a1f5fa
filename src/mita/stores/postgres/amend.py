"""Changes that people ask of jobs: reschedule, cancel, retry, prioritise, delete, signal,
rewrite."""

from collections.abc import Sequence
from typing import Any

from mita.model.flow import Arrival
from mita.model.job import Asked, State
from mita.model.outcome import (
    Answer,
    CancelJob,
    Change,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
    RewriteJob,
    SignalJob,
)
from mita.model.time import When
from mita.ports.store import ASKED
from mita.rules.asked import may_ask
from mita.rules.durable import arrival_name, signal_name, wait_name
from mita.rules.states import DEAD, allowed
from mita.stores.shared.ids import without_repeats

from . import maintenance, resources
from .codec import Row
from .context import PostgresContext, Query, RoundTrip, RoundTrips, query
from .server.arrays import blobs, check_size, numbers, storable, texts


def amend(context: PostgresContext, ids: Sequence[str], change: Change) -> RoundTrips[list[Answer]]:
    """Change these jobs. Returns one answer for each id."""
    if not ids:
        return []
    match change:
        case RetryJob() | RewriteJob():
            answers = yield from _amend_readable(context, ids, change)
        case RescheduleJob():
            answers = []
            for some in without_repeats(ids):
                answers += yield from _reschedule(context, some, change)
        case DeleteJob():
            answers = yield from _delete(context, ids, change)
        case _:
            answers = yield from _amend(context, ids, change)
    yield RoundTrip(last=True)
    return [answer or Answer.TOO_LATE for answer in answers]


def arrive(context: PostgresContext, arrivals: Sequence[Arrival]) -> RoundTrips[list[Answer]]:
    """Tell jobs how others have ended."""
    if not arrivals:
        return []
    for arrival in arrivals:
        check_size(arrival.value)
    names = [storable(arrival_name(arrival.sender)) for arrival in arrivals]
    first: dict[tuple[str, str], int] = {}  # by receiver and name; the first of each counts
    for at, (arrival, name) in enumerate(zip(arrivals, names, strict=True)):
        first.setdefault((arrival.receiver, name), at)
    told = [arrivals[at] for at in first.values()]
    [rows] = yield RoundTrip(
        query(
            "arrive",
            receivers=texts([storable(arrival.receiver) for arrival in told]),
            names=texts([name for _, name in first]),
            values=blobs([arrival.value for arrival in told]),
            needs=numbers([arrival.needs for arrival in told]),
        ),
        last=True,
    )
    context.topics.update(queue for _, queue, _, _, is_due in rows if is_due)
    found = {row[0]: row for row in rows}
    return [
        _answer_to_arrival(found.get(arrival.receiver), name, first[arrival.receiver, name] == at)
        for at, (arrival, name) in enumerate(zip(arrivals, names, strict=True))
    ]


def _answer_to_arrival(found: Row | None, name: str, is_first: bool) -> Answer:
    if found is None:
        return Answer.UNKNOWN
    _, _, state, known, _ = found
    if State(state) is State.SUCCEEDED or known is None:
        return Answer.TOO_LATE
    return Answer.DONE if is_first and name not in known else Answer.TAKEN


def _reschedule(
    context: PostgresContext, ids: Sequence[str], change: RescheduleJob
) -> RoundTrips[list[Answer | None]]:
    """Reschedule these jobs, and retry those of them that have failed or were cancelled."""
    answers = yield from _amend(context, ids, change)
    dead = [id for id, answer in zip(ids, answers, strict=True) if answer is None]
    retry = RetryJob(change.when, change.note)
    retried = iter((yield from _amend_readable(context, dead, retry)))
    return [next(retried) if answer is None else answer for answer in answers]


def _amend_readable(
    context: PostgresContext, ids: Sequence[str], change: RetryJob | RewriteJob
) -> RoundTrips[list[Answer | None]]:
    """Change the jobs whose records can be read."""
    if not ids:
        return []
    [rows] = yield RoundTrip(maintenance.whole_rows(context, list(ids)))
    lost = maintenance.stay_unreadable(rows)
    changed = iter((yield from _amend(context, [id for id in ids if id not in lost], change)))
    return [Answer.UNREADABLE if id in lost else next(changed) for id in ids]


def _delete(
    context: PostgresContext, ids: Sequence[str], change: DeleteJob
) -> RoundTrips[list[Answer | None]]:
    """Delete ended jobs. A job that cannot be read is shown as failed before it is set aside; to
    delete it, it is set aside first."""
    answers = yield from _amend(context, ids, change)
    late = [id for id, answer in zip(ids, answers, strict=True) if answer is Answer.TOO_LATE]
    if not late or not (yield from maintenance.set_aside(context)):
        return answers
    again = iter((yield from _amend(context, late, change)))
    return [next(again) if answer is Answer.TOO_LATE else answer for answer in answers]


def _amend(
    context: PostgresContext, ids: Sequence[str], change: Change
) -> RoundTrips[list[Answer | None]]:
    """The answer for each id; None for a failed or cancelled job to be rescheduled: it must be
    retried instead."""
    answers: list[Answer | None] = []
    for some in without_repeats(ids):
        [rows] = yield RoundTrip(_query(some, change))
        found = {row[0]: row for row in rows}
        answers += [_answer(context, found.get(id), change) for id in some]
        if isinstance(change, CancelJob | RescheduleJob):
            yield from resources.stop_waking(context, [(row[1], row[4]) for row in found.values()])
    return answers


def _query(some: Sequence[str], change: Change) -> Query:
    ids = sorted(some)
    match change:
        case RetryJob(when, note):  # which of two jobs gets a unique key depends on their order
            asked = texts([storable(id) for id in some])
            return query("amend_retry", ids=asked, note=storable(note), **_due(when))
        case RescheduleJob(when, note):
            return query("amend_reschedule", ids=texts(ids), note=storable(note), **_due(when))
        case CancelJob(keep, reason):
            return query("amend_cancel", ids=texts(ids), keep=keep, reason=storable(reason))
        case PrioritiseJob(priority):
            return query("amend_prioritise", ids=texts(ids), priority=priority)
        case DeleteJob():
            return query("amend_delete", ids=texts(ids))
        case RewriteJob(payload, note):
            check_size(payload)
            return query("amend_rewrite", ids=texts(ids), payload=payload, note=storable(note))
        case SignalJob(name, value):
            check_size(value)
            names = {
                "name": storable(name),
                "signal": storable(signal_name(name)),
                "wait": storable(wait_name(name)),
            }
            return query("amend_signal", ids=texts(ids), value=value, **names)


def _due(when: When) -> dict[str, Any]:
    return {"wait": when.wait, "at": when.at}


def _answer(context: PostgresContext, found: Row | None, change: Change) -> Answer | None:
    """The answer by the state in which the statement found the job. The last column is what was
    asked of the job before, or whether it was retried or signalled."""
    if found is None:
        return Answer.UNKNOWN
    _, queue, state, more = found[:4]
    if State(state) not in allowed(change):
        return Answer.TOO_LATE
    if isinstance(change, RescheduleJob) and State(state) in DEAD:
        return None
    if isinstance(change, RescheduleJob) and state == State.RUNNING:
        if not may_ask(Asked(more) if more else None, Asked.RESCHEDULE):
            return Answer.TOO_LATE
        return Answer.ASKED
    if isinstance(change, SignalJob) and more is None:
        return Answer.UNREADABLE
    if isinstance(change, RetryJob | SignalJob) and not more:
        return Answer.TAKEN
    if state == State.RUNNING and not isinstance(change, PrioritiseJob | SignalJob):
        if isinstance(change, CancelJob):
            context.topics.add(ASKED)
        return Answer.ASKED
    context.topics.add(queue)
    return Answer.DONE
