"""What happens to jobs: enqueue, settle, amend. Their claim is in claim.py."""

from typing import Any

import msgspec
from msgspec.structs import asdict

from mita.model.flow import Arrival
from mita.model.job import Job, NewJob, Receipt, State
from mita.model.outcome import (
    Answer,
    CancelJob,
    Change,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
    RewriteJob,
    Settlement,
    SignalJob,
    Verdict,
)
from mita.model.time import Wait
from mita.ports.store import ASKED
from mita.rules.asked import kind_after, state_after
from mita.rules.durable import arrival_name, arrivals, signal_name, wait_name
from mita.rules.gates import keys_of
from mita.rules.states import DEAD, TERMINAL, allowed
from mita.rules.twins import TwinAct, act_on_twin, debounced_due

from .file import Content, Record
from .keys import (
    end_unique,
    give_tokens_back,
    give_up_unique,
    hold,
    take_unique,
    unique_owner,
    wake,
)

AT_ZERO = dict.fromkeys(("attempts", "reschedules", "busy", "interruptions", "crashes"), 0)
EMPTY = dict.fromkeys(
    ("error", "result", "finished", "expires", "stranded", "worker", "started", "group")
)
GIVEN = set(NewJob.__struct_fields__) & set(Job.__struct_fields__)


def enqueue(content: Content, new: NewJob) -> Receipt:
    if new.id in content.records:
        return Receipt(new.id, created=False)
    twin = unique_owner(content, new.queue, new.unique)
    if twin is not None and stands_for(content, twin, new):
        return Receipt(twin, created=False)
    given = {name: getattr(new, name) for name in GIVEN}
    due = new.when.moment(content.now)
    job = Job(**given, state=State.QUEUED, due=due, created=content.now)
    content.arrivals += 1
    content.records[job.id] = Record(job, content.arrivals)
    take_unique(content, job, new.throttle)
    content.queues.setdefault(job.queue, None)
    if job.fair is not None:
        content.turns.setdefault(job.queue, {})
    content.notify(job.queue)
    return Receipt(job.id)


def stands_for(content: Content, twin: str, new: NewJob) -> bool:
    """Whether the job that has the unique key stands for the new job, which is not stored then. A
    debounce moves the twin, and gives it the new arguments."""
    record = content.records.get(twin)  # None: it was deleted, and a throttle keeps its key
    act = TwinAct.KEEP if record is None else act_on_twin(new, record.job.state)
    if record is not None and act is TwinAct.MOVE:
        content.note(record, "debounced")
        due = debounced_due(new, record.job.created, content.now)
        newest = {name: getattr(new, name) for name in ("payload", "options", "headers")}
        record.change(state=State.QUEUED, blocked_at=None, due=due, **newest)
        content.notify(new.queue)
    return act is not TwinAct.REPLACE


# ---------------------------------------------------------------- settle


def settle(content: Content, settlement: Settlement) -> bool:
    record, verdict = content.held_by(settlement.claim), settlement.verdict
    if record is None:
        return False
    job, keys = record.job, keys_of(record.job.resource, record.job.gates)
    if kind := kind_after(job.asked, verdict):
        content.note(record, kind, verdict.note, verdict.worker or job.worker, verdict.failure)
    if verdict.unstarted:
        give_tokens_back(content, job)
    apply(content, record, verdict)
    for key in keys:
        if verdict.hold is not None and key == keys[0]:
            hold(content, (job.queue, key), verdict.hold.moment(content.now))
        else:
            wake(content, (job.queue, key), most=1)
    if (job.queue, None) in content.limits:  # there may be a place for a job that is ready
        content.notify(job.queue)
    return True


def apply(content: Content, record: Record, verdict: Verdict) -> None:
    """Write what the verdict says. A cancel or a reschedule that was asked for goes first."""
    job = record.job
    written: dict[str, Any] = {"stranded": None}
    if verdict.stranded:
        written["stranded"] = content.now if job.stranded is None else job.stranded
    if verdict.counts is not None:
        written[verdict.counts.value] = getattr(job, verdict.counts.value) + 1
    if verdict.error is not None:
        written["error"] = verdict.error
    state = state_after(job.asked, verdict)
    if state in TERMINAL:
        written["result"] = verdict.result if state is State.SUCCEEDED else None
        written["group"] = verdict.group if state is State.FAILED else None
        keep = record.asked_keep if job.asked and not verdict.told else verdict.keep
        finish(content, record, state, keep, **written)
        return
    if state is State.BLOCKED:  # it waits at the key that it puts on hold
        written["blocked_at"] = keys_of(job.resource, job.gates)[0]
    due = job.due if verdict.when is None else verdict.when.moment(content.now)
    if verdict.waits is not None and signal_name(verdict.waits) in record.once_values:
        due = content.now
    put_back(content, record, state=state, due=record.asked_due if job.asked else due, **written)


def put_back(content: Content, record: Record, **changes: Any) -> None:
    record.change(lease_until=None, worker=None, asked=None, **changes)
    content.notify(record.job.queue)


def finish(content: Content, record: Record, state: State, keep: Wait, **more: Any) -> None:
    """Bring a job to its end. One that is kept for no time is deleted."""
    ended = {"finished": content.now, "expires": content.now + keep}
    record.change(state=state, lease_until=None, asked=None, blocked_at=None, **ended, **more)
    end_unique(content, record.job)
    if keep == 0:
        del content.records[record.job.id]


# ---------------------------------------------------------------- amend


def amend(content: Content, id: str, change: Change) -> Answer:
    record = content.records.get(id)
    if record is None:
        return Answer.UNKNOWN
    if record.job.state not in allowed(change):
        return Answer.TOO_LATE
    answer = _amend(content, record, change)
    if answer is Answer.DONE:
        content.notify(record.job.queue)
    elif answer is Answer.ASKED and isinstance(change, CancelJob):
        content.notify(ASKED)
    return answer


def _amend(content: Content, record: Record, change: Change) -> Answer:
    match change:
        case RescheduleJob() if record.job.state in DEAD:
            return retry(content, record, RetryJob(change.when, change.note))
        case RescheduleJob():
            return reschedule(content, record, change)
        case CancelJob():
            return cancel(content, record, change)
        case RetryJob():
            return retry(content, record, change)
        case PrioritiseJob(priority):
            record.change(priority=priority)
        case SignalJob():
            return signal(content, record, change)
        case RewriteJob(payload, note):
            content.note(record, "amended", note)
            record.change(payload=payload)
        case DeleteJob():
            give_up_unique(content, record.job)
            del content.records[record.job.id]
    return Answer.DONE


def reschedule(content: Content, record: Record, change: RescheduleJob) -> Answer:
    job, due = record.job, change.when.moment(content.now)
    if job.asked == "cancel":
        return Answer.TOO_LATE
    content.note(record, "rescheduled", change.note)
    if job.state is State.RUNNING:
        record.asked_due = due
        record.change(asked="reschedule", reschedules=job.reschedules + 1)
        return Answer.ASKED
    moves = job.reschedules + 1
    record.change(state=State.QUEUED, due=due, reschedules=moves, blocked_at=None)
    return Answer.DONE


def signal(content: Content, record: Record, change: SignalJob) -> Answer:
    values, name = record.once_values, signal_name(change.name)
    if name in values:
        return Answer.TAKEN
    values[name] = change.value
    content.note(record, "signalled", change.name)
    if record.job.state is State.QUEUED and wait_name(change.name) in values:
        record.change(due=min(record.job.due, content.now))
    return Answer.DONE


def arrive(content: Content, arrival: Arrival) -> Answer:
    record = content.records.get(arrival.receiver)
    if record is None:
        return Answer.UNKNOWN
    values, name = record.once_values, arrival_name(arrival.sender)
    if record.job.state is State.SUCCEEDED:
        return Answer.TOO_LATE
    if name in values:
        return Answer.TAKEN
    values[name] = arrival.value
    if record.job.state is State.QUEUED and arrivals(values) >= arrival.needs:
        record.change(due=min(record.job.due, content.now))
        content.notify(record.job.queue)
    return Answer.DONE


def cancel(content: Content, record: Record, change: CancelJob) -> Answer:
    content.note(record, "cancelled", change.reason)
    if record.job.state is State.RUNNING:
        record.asked_keep = change.keep
        record.change(asked="cancel")
        return Answer.ASKED
    finish(content, record, State.CANCELLED, change.keep)
    return Answer.DONE


def retry(content: Content, record: Record, change: RetryJob) -> Answer:
    job = record.job
    if unique_owner(content, job.queue, job.unique) not in (None, job.id):
        return Answer.TAKEN
    content.note(record, "revived", change.note)
    due = change.when.moment(content.now)
    record.change(state=State.QUEUED, due=due, **AT_ZERO, **EMPTY)
    take_unique(content, record.job)
    return Answer.DONE


def packed(job: Job) -> dict[str, bytes]:
    """The job as it is stored, field by field."""
    return {name: msgspec.msgpack.encode(value) for name, value in asdict(job).items()}
