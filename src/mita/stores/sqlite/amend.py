"""Changes that a person asks for: reschedule, cancel, retry, prioritise, delete, signal,
rewrite."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

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
from mita.rules.states import DEAD, allowed

from . import maintenance, once, unique
from .context import SqliteContext, as_json
from .settle import delete

read_json = msgspec.json.decode
_NO_JOB: tuple[int, str | None, set[str]] = (0, None, set())


class _Found(NamedTuple):
    """The columns of `amend_find`."""

    seq: int
    id: str
    queue: str
    state: str
    asked: str | None
    unique: str | None
    unique_for: int


def amend(context: SqliteContext, ids: Sequence[str], change: Change) -> list[Answer]:
    """Change jobs by id."""
    answers = [_amend(context, id, change) for id in ids]
    if (
        isinstance(change, DeleteJob)
        and Answer.TOO_LATE in answers
        and maintenance.set_aside(context)
    ):
        # A job that cannot be read is shown as failed, also before it is set aside.
        late = [at for at, answer in enumerate(answers) if answer is Answer.TOO_LATE]
        for at in late:
            answers[at] = _amend(context, ids[at], change)
    return answers


def _amend(context: SqliteContext, id: str, change: Change) -> Answer:
    found = context.row("amend_find", id=id)
    if found is None:
        return Answer.UNKNOWN
    job = _Found(*found)
    if State(job.state) not in allowed(change):
        return Answer.TOO_LATE
    match change:
        case RescheduleJob():
            return _reschedule(context, job, change)
        case CancelJob():
            return _cancel(context, job, change)
        case RetryJob():
            return _retry(context, job, change)
        case PrioritiseJob():
            context.run("amend_prioritise", seq=job.seq, priority=change.priority)
            return Answer.DONE
        case SignalJob():
            return _signal(context, job, change)
        case RewriteJob():
            return _rewrite(context, job, change)
        case DeleteJob():
            return _delete(context, job)


def _reschedule(context: SqliteContext, job: _Found, change: RescheduleJob) -> Answer:
    if State(job.state) in DEAD:
        return _retry(context, job, RetryJob(change.when, change.note))
    if not may_ask(None if job.asked is None else Asked(job.asked), Asked.RESCHEDULE):
        return Answer.TOO_LATE
    due, fixed = change.when.moment(context.now), change.when.is_fixed(context.now)
    context.note(job.seq, TimelineKind.RESCHEDULED, change.note)
    if job.state == State.RUNNING:
        return _ask(context, job, Asked.RESCHEDULE, due=due, fixed=fixed, keep=None)
    context.run("amend_reschedule", seq=job.seq, due=due, fixed=fixed)
    context.topics.add(job.queue)
    return Answer.DONE


def _cancel(context: SqliteContext, job: _Found, change: CancelJob) -> Answer:
    context.note(job.seq, TimelineKind.CANCELLED, change.reason)
    if job.state == State.RUNNING:
        return _ask(context, job, Asked.CANCEL, due=None, fixed=False, keep=change.keep)
    now, expires = context.now, context.now + change.keep
    context.run("amend_cancel", seq=job.seq, now=now, expires=expires)
    if job.unique is not None:
        unique.free(context, job.queue, job.unique, job.id, job.unique_for)
    if not change.keep:
        delete(context, [job.seq])
    return Answer.DONE


def _ask(context: SqliteContext, job: _Found, asked: Asked, **details: Any) -> Answer:
    """A running job finishes its run first. What was asked is stored with it."""
    context.run("amend_ask", seq=job.seq, asked=asked.value, **details)
    if asked is Asked.CANCEL:
        context.topics.add(ASKED)
    return Answer.ASKED


def _retry(context: SqliteContext, job: _Found, change: RetryJob) -> Answer:
    if maintenance.stays_unreadable(context, job.seq):
        return Answer.UNREADABLE
    if job.unique is not None:
        if unique.holder(context, job.queue, job.unique) not in (None, job.id):
            return Answer.TAKEN
        unique.take(context, job.queue, job.unique, job.id)
    due, fixed = change.when.moment(context.now), change.when.is_fixed(context.now)
    context.run("amend_retry", seq=job.seq, due=due, fixed=fixed)
    context.note(job.seq, TimelineKind.REVIVED, change.note)
    context.topics.add(job.queue)
    return Answer.DONE


def _signal(context: SqliteContext, job: _Found, change: SignalJob) -> Answer:
    if once.exists(context, job.seq, signal_name(change.name)):
        return Answer.TAKEN
    once.store(context, job.seq, signal_name(change.name), change.value)
    context.note(job.seq, TimelineKind.SIGNALLED, change.name)
    if once.exists(context, job.seq, wait_name(change.name)):
        context.run("amend_signal", seq=job.seq, now=context.now)
    context.topics.add(job.queue)
    return Answer.DONE


def _rewrite(context: SqliteContext, job: _Found, change: RewriteJob) -> Answer:
    if maintenance.stays_unreadable(context, job.seq):
        return Answer.UNREADABLE
    context.run("amend_rewrite", seq=job.seq, payload=change.payload)
    context.note(job.seq, TimelineKind.AMENDED, change.note)
    return Answer.DONE


def arrive(context: SqliteContext, arrivals: Sequence[Arrival]) -> list[Answer]:
    """Tell jobs how others have ended. It takes a few statements, however many there are."""
    names: dict[str, list[str]] = {}
    for arrival in arrivals:
        names.setdefault(arrival.receiver, []).append(arrival_name(arrival.sender))
    found = read_json(context.value("arrive_find", told=as_json(names.items())))
    jobs = {id: (seq, state, set(known)) for id, seq, _, state, known in found}
    answers: list[Answer] = []
    new: list[tuple[int, str, bytes]] = []
    needs: set[tuple[int, int]] = set()
    for arrival in arrivals:
        seq, state, known = jobs.get(arrival.receiver, _NO_JOB)
        name = arrival_name(arrival.sender)
        if state is None or state == State.SUCCEEDED:
            answers.append(Answer.UNKNOWN if state is None else Answer.TOO_LATE)
        elif name in known:
            answers.append(Answer.TAKEN)
        else:
            known.add(name)  # of two arrivals of one sender the first counts
            new.append((seq, name, arrival.value))
            needs.add((seq, arrival.needs))
            answers.append(Answer.DONE)
    if not new:
        return answers
    context.run_padded("arrive_store", new)
    due = read_json(context.value("arrive_enough", needs=as_json(needs), now=context.now))
    if due:
        context.run("arrive", seqs=as_json(due), now=context.now)
        queues = {seq: queue for _, seq, queue, _, _ in found}
        context.topics.update(queues[seq] for seq in due)
    return answers


def _delete(context: SqliteContext, job: _Found) -> Answer:
    if job.unique is not None:
        context.run("unique_delete", seq=job.seq)
    delete(context, [job.seq])
    return Answer.DONE
