"""What happens to jobs: enqueue, claim, settle, amend."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from mita.model.job import Claim, Job, NewJob, Receipt, State, WhenBusy
from mita.model.outcome import (
    Answer,
    Busy,
    CancelJob,
    Change,
    ClaimResult,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
    Settlement,
    Verdict,
)
from mita.model.time import HOUR, Moment, Wait
from mita.ports.store import ASKED
from mita.rules.states import DEAD, TERMINAL, allowed

from .file import Content, Record
from .keys import (
    end_holds,
    end_unique,
    give_up_unique,
    hold,
    may_run,
    take_unique,
    unique_owner,
    wake,
)

AT_ZERO = dict.fromkeys(("attempts", "reschedules", "busy", "interruptions", "crashes"), 0)
EMPTY = dict.fromkeys(("error", "result", "finished", "expires", "stranded", "worker", "started"))
SHARED = set(Job.__struct_fields__) & set(Claim.__struct_fields__)


def enqueue(content: Content, new: NewJob) -> Receipt:
    if new.id in content.records:
        return Receipt(new.id, created=False)
    if earlier := unique_owner(content, new.queue, new.unique):
        return Receipt(earlier, created=False)
    given = {name: value for name, value in asdict(new).items() if name not in ("when", "fresh")}
    due = new.when.moment(content.now)
    job = Job(**given, state=State.QUEUED, due=due, created=content.now)
    content.arrivals += 1
    content.records[job.id] = Record(job, content.arrivals)
    take_unique(content, job)
    content.queues.setdefault(job.queue, None)
    content.notify(job.queue)
    return Receipt(job.id)


# ---------------------------------------------------------------- claim


def claim(
    content: Content, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    served = [queue for queue in dict.fromkeys(queues) if content.queues.get(queue) is None]
    end_holds(content, served)
    claims: list[Claim] = []
    busy: list[Busy] = []
    for queue in served:
        for record in content.in_order(partial(is_due, content, queue)):
            if len(claims) == limit:
                return ClaimResult([], claims, 0, busy)
            if record.job.state is not State.QUEUED:
                continue  # a job before it has replaced it
            if may_run(content, record.job):
                claims.append(take(content, record, lease, worker, started=content.now))
            else:
                busy.append(turn_away(content, record))
    return ClaimResult([], claims, next_due(content, served), busy)


def is_due(content: Content, queue: str, job: Job) -> bool:
    return job.queue == queue and job.state is State.QUEUED and job.due <= content.now


def take(content: Content, record: Record, lease: Wait, worker: str, **more: Any) -> Claim:
    """Give the job to this worker, with a new token."""
    record.change(
        state=State.RUNNING,
        token=record.job.token + 1,
        worker=worker,
        lease_until=content.now + lease,
        **more,
    )
    shared = {name: getattr(record.job, name) for name in SHARED}
    return Claim(at=content.now, **shared)


def turn_away(content: Content, record: Record) -> Busy:
    """The job's resource key is taken."""
    job = record.job
    if job.when_busy is WhenBusy.SKIP:
        content.note(record, "skipped", f"{job.resource} is taken")
        finish(content, record, State.CANCELLED, HOUR, busy=job.busy + 1)
        return Busy(job.id, job.task, job.queue, ended=True)
    if job.when_busy is WhenBusy.REPLACE:
        for other in content.with_key((job.queue, job.resource or ""), State.BLOCKED):
            content.note(other, "replaced", f"by {job.id}")
            finish(content, other, State.CANCELLED, HOUR)
    content.note(record, "blocked", f"{job.resource} is taken")
    record.change(state=State.BLOCKED, busy=job.busy + 1)
    return Busy(job.id, job.task, job.queue)


def next_due(content: Content, queues: Sequence[str]) -> Wait | None:
    """How long it is until a claim may find more; None: nothing is scheduled."""
    jobs = [record.job for record in content.records.values() if record.job.queue in queues]
    blocked = {(job.queue, job.resource) for job in jobs if job.state is State.BLOCKED}
    times: list[Moment] = [job.due for job in jobs if job.state is State.QUEUED]
    times += [until for key, until in content.holds.items() if key in blocked]
    return max(0, min(times) - content.now) if times else None


def reap(content: Content, limit: int, lease: Wait, worker: str) -> list[Claim]:
    """Take over the jobs whose lease is over."""
    over = [
        record
        for record in content.records.values()
        if record.job.state is State.RUNNING and (record.job.lease_until or 0) <= content.now
    ]
    over.sort(key=lambda record: (record.job.lease_until or 0, record.age))
    return [
        replace(take(content, record, lease, worker), lost=lost)
        for record in over[:limit]
        for lost in [record.job.worker]
    ]


# ---------------------------------------------------------------- settle


def settle(content: Content, settlement: Settlement) -> bool:
    record, verdict = content.held_by(settlement.claim), settlement.verdict
    if record is None:
        return False
    job = record.job
    kind = verdict.event or (verdict.state.value if job.asked else "")
    if kind:
        content.note(record, kind, verdict.note, verdict.worker or job.worker, verdict.failure)
    apply(content, record, verdict)
    if job.resource is not None and verdict.hold is not None:
        hold(content, (job.queue, job.resource), verdict.hold.moment(content.now))
    elif job.resource is not None:
        wake(content, (job.queue, job.resource), most=1)
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
    if job.asked == "cancel":
        finish(content, record, State.CANCELLED, record.asked_keep, **written)
    elif job.asked == "reschedule":
        put_back(content, record, state=State.QUEUED, due=record.asked_due, **written)
    elif verdict.state in TERMINAL:
        written["result"] = verdict.result if verdict.state is State.SUCCEEDED else None
        finish(content, record, verdict.state, verdict.keep, **written)
    else:
        due = job.due if verdict.when is None else verdict.when.moment(content.now)
        put_back(content, record, state=verdict.state, due=due, **written)


def put_back(content: Content, record: Record, **changes: Any) -> None:
    record.change(lease_until=None, worker=None, asked=None, **changes)
    content.notify(record.job.queue)


def finish(content: Content, record: Record, state: State, keep: Wait, **more: Any) -> None:
    """Bring a job to its end. One that is kept for no time is deleted."""
    ended = {"finished": content.now, "expires": content.now + keep}
    record.change(state=state, lease_until=None, asked=None, **ended, **more)
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
    record.change(state=State.QUEUED, due=due, reschedules=job.reschedules + 1)
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
