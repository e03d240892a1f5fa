"""Changes that a person asks for: reschedule, cancel, retry, prioritise, delete, signal,
rewrite."""

from collections.abc import Sequence

from mita.errors import Rejected
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
    TimelineKind,
)
from mita.ports.store import ASKED
from mita.rules.asked import may_ask
from mita.rules.durable import arrival_name, signal_name, wait_name
from mita.rules.durable import arrivals as count_arrivals
from mita.rules.states import DEAD, allowed
from mita.stores.shared.record import RESET_ON_RETRY

from . import unique
from .context import MemoryContext
from .settle import finish
from .state.memory_state import MemoryRecord


def amend(context: MemoryContext, ids: Sequence[str], change: Change) -> list[Answer]:
    """Change jobs by id."""
    return [_amend(context, id, change) for id in ids]


def _amend(context: MemoryContext, id: str, change: Change) -> Answer:
    record = context.state.records.get(id)
    if record is None:
        return Answer.UNKNOWN
    if record.job.state not in allowed(change):
        return Answer.TOO_LATE
    answer = _apply(context, record, change)
    if answer is Answer.DONE:
        context.topics.add(record.job.queue)
    elif answer is Answer.ASKED and isinstance(change, CancelJob):
        context.topics.add(ASKED)
    return answer


def _apply(context: MemoryContext, record: MemoryRecord, change: Change) -> Answer:
    running = record.job.state is State.RUNNING
    match change:
        case RescheduleJob():
            return (_ask_to_reschedule if running else _reschedule)(context, record, change)
        case CancelJob():
            return (_ask_to_cancel if running else _cancel)(context, record, change)
        case RetryJob():
            return _retry(context, record, change)
        case PrioritiseJob(priority):
            context.change(record, priority=priority)
            return Answer.DONE
        case SignalJob():
            return _signal(context, record, change)
        case RewriteJob():
            return _rewrite(context, record, change)
        case DeleteJob():
            unique.delete(context, record.job)
            context.delete(record)
            return Answer.DONE


def _reschedule(context: MemoryContext, record: MemoryRecord, change: RescheduleJob) -> Answer:
    job = record.job
    if job.state in DEAD:
        return _retry(context, record, RetryJob(change.when, change.note))
    context.note(record, TimelineKind.RESCHEDULED, change.note)
    due = change.when.moment(context.now)
    context.change(
        record, state=State.QUEUED, due=due, reschedules=job.reschedules + 1, blocked_at=None
    )
    return Answer.DONE


def _ask_to_reschedule(
    context: MemoryContext, record: MemoryRecord, change: RescheduleJob
) -> Answer:
    if not may_ask(record.job.asked, Asked.RESCHEDULE):
        return Answer.TOO_LATE
    context.note(record, TimelineKind.RESCHEDULED, change.note)
    record.asked_due = change.when.moment(context.now)
    context.change(record, asked=Asked.RESCHEDULE, reschedules=record.job.reschedules + 1)
    return Answer.ASKED


def _cancel(context: MemoryContext, record: MemoryRecord, change: CancelJob) -> Answer:
    context.note(record, TimelineKind.CANCELLED, change.reason)
    finish(context, record, State.CANCELLED, change.keep)
    return Answer.DONE


def _ask_to_cancel(context: MemoryContext, record: MemoryRecord, change: CancelJob) -> Answer:
    context.note(record, TimelineKind.CANCELLED, change.reason)
    record.asked_keep = change.keep
    context.change(record, asked=Asked.CANCEL)
    return Answer.ASKED


def _signal(context: MemoryContext, record: MemoryRecord, change: SignalJob) -> Answer:
    name, values = signal_name(change.name), record.once_values
    if name in values:
        return Answer.TAKEN
    _check_room(context, record, "a signal", change.value)
    values[name] = change.value
    context.note(record, TimelineKind.SIGNALLED, change.name)
    if record.job.state is State.QUEUED and wait_name(change.name) in values:
        context.change(record, due=min(record.job.due, context.now))
    return Answer.DONE


def _rewrite(context: MemoryContext, record: MemoryRecord, change: RewriteJob) -> Answer:
    room = context.room
    if room is not None and len(change.payload) > room:
        raise Rejected(
            f"arguments of {len(change.payload):,} bytes are more than this store has room for "
            f"({room:,})"
        )
    context.note(record, TimelineKind.AMENDED, change.note)
    context.change(record, payload=change.payload)
    return Answer.DONE


def _check_room(context: MemoryContext, record: MemoryRecord, what: str, value: bytes) -> None:
    room = context.room
    if room is not None and len(record.job.payload) + len(value) > room:
        raise Rejected(
            f"{what} of {len(value):,} bytes is more than this store has room for ({room:,})"
        )


def arrive(context: MemoryContext, arrivals: Sequence[Arrival]) -> list[Answer]:
    """Tell jobs how others have ended."""
    return [_arrive(context, arrival) for arrival in arrivals]


def check_arrivals(context: MemoryContext, arrivals: Sequence[Arrival]) -> None:
    """Raises Rejected if the store has no room for one of these."""
    for arrival in arrivals:
        record = context.state.records.get(arrival.receiver)
        if record is not None:
            _check_room(context, record, "an arrival", arrival.value)


def _arrive(context: MemoryContext, arrival: Arrival) -> Answer:
    record = context.state.records.get(arrival.receiver)
    if record is None:
        return Answer.UNKNOWN
    if record.job.state is State.SUCCEEDED:
        return Answer.TOO_LATE
    values, name = record.once_values, arrival_name(arrival.sender)
    if name in values:
        return Answer.TAKEN
    _check_room(context, record, "an arrival", arrival.value)
    values[name] = arrival.value
    if record.job.state is State.QUEUED and count_arrivals(values) >= arrival.needs:
        context.change(record, due=min(record.job.due, context.now))
        context.topics.add(record.job.queue)
    return Answer.DONE


def _retry(context: MemoryContext, record: MemoryRecord, change: RetryJob) -> Answer:
    job = record.job
    if unique.holder(context, job.queue, job.unique) not in (None, job.id):
        return Answer.TAKEN
    context.note(record, TimelineKind.REVIVED, change.note)
    due = change.when.moment(context.now)
    unique.take(context, context.change(record, state=State.QUEUED, due=due, **RESET_ON_RETRY))
    return Answer.DONE
