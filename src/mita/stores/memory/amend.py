"""What a person asks of a job by its id."""

from mita.model.job import Asked, State
from mita.model.outcome import (
    Answer,
    CancelJob,
    Change,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
    TimelineKind,
)
from mita.ports.store import ASKED
from mita.rules.asked import may_ask
from mita.rules.states import DEAD, allowed

from .context import Act, Record
from .resources import give_up_unique, take_unique, unique_holder
from .settle import finish

COUNTERS_AT_ZERO = {"attempts": 0, "reschedules": 0, "busy": 0, "interruptions": 0, "crashes": 0}
AS_IF_NEVER_RUN = dict.fromkeys(
    ("error", "result", "finished", "expires", "stranded", "worker", "started")
)


def amend(act: Act, id: str, change: Change) -> Answer:
    record = act.state.records.get(id)
    if record is None:
        return Answer.UNKNOWN
    if record.job.state not in allowed(change):
        return Answer.TOO_LATE
    answer = _apply(act, record, change)
    if answer is Answer.DONE:
        act.rings.add(record.job.queue)
    elif answer is Answer.ASKED and isinstance(change, CancelJob):
        act.rings.add(ASKED)
    return answer


def _apply(act: Act, record: Record, change: Change) -> Answer:
    running = record.job.state is State.RUNNING
    match change:
        case RescheduleJob():
            return _ask_to_move(act, record, change) if running else _move(act, record, change)
        case CancelJob():
            return _ask_to_stop(act, record, change) if running else _cancel(act, record, change)
        case RetryJob():
            return _revive(act, record, change)
        case PrioritiseJob(priority):
            act.change(record, priority=priority)
            return Answer.DONE
        case DeleteJob():
            return _delete(act, record)


def _move(act: Act, record: Record, change: RescheduleJob) -> Answer:
    if record.job.state in DEAD:
        return _revive(act, record, RetryJob(change.when, change.note))
    act.note(record, TimelineKind.RESCHEDULED, change.note)
    due = change.when.moment(act.now)
    act.change(record, state=State.QUEUED, due=due, reschedules=record.job.reschedules + 1)
    return Answer.DONE


def _ask_to_move(act: Act, record: Record, change: RescheduleJob) -> Answer:
    if not may_ask(record.job.asked, Asked.RESCHEDULE):
        return Answer.TOO_LATE
    act.note(record, TimelineKind.RESCHEDULED, change.note)
    record.asked_due = change.when.moment(act.now)
    act.change(record, asked=Asked.RESCHEDULE, reschedules=record.job.reschedules + 1)
    return Answer.ASKED


def _cancel(act: Act, record: Record, change: CancelJob) -> Answer:
    act.note(record, TimelineKind.CANCELLED, change.reason)
    finish(act, record, State.CANCELLED, change.keep)
    return Answer.DONE


def _ask_to_stop(act: Act, record: Record, change: CancelJob) -> Answer:
    act.note(record, TimelineKind.CANCELLED, change.reason)
    record.asked_keep = change.keep
    act.change(record, asked=Asked.CANCEL)
    return Answer.ASKED


def _revive(act: Act, record: Record, change: RetryJob) -> Answer:
    job = record.job
    if unique_holder(act, job.queue, job.unique) not in (None, job.id):
        return Answer.TAKEN
    act.note(record, TimelineKind.REVIVED, change.note)
    due = change.when.moment(act.now)
    take_unique(
        act, act.change(record, state=State.QUEUED, due=due, **COUNTERS_AT_ZERO, **AS_IF_NEVER_RUN)
    )
    return Answer.DONE


def _delete(act: Act, record: Record) -> Answer:
    give_up_unique(act, record.job)
    act.forget(record)
    return Answer.DONE
