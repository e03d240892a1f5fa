"""What people ask of a job from outside, in whatever state it is."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from mita.model.job import State
from mita.model.outcome import (
    Answer,
    CancelJob,
    Change,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
)
from mita.ports.store import ASKED
from mita.rules.states import DEAD, allowed

from . import aside
from .context import Tx
from .settle import forget
from .timeline import note


class _Row(NamedTuple):
    seq: int
    id: str
    queue: str
    state: str
    asked: str | None
    unique: str | None
    unique_for: int


def amend(tx: Tx, ids: Sequence[str], change: Change) -> list[Answer]:
    answers = [_amend(tx, id, change) for id in ids]
    if isinstance(change, DeleteJob) and Answer.TOO_LATE in answers and aside.set_aside(tx):
        # A job that cannot be read is shown as failed, also before it is set aside.
        late = [at for at, answer in enumerate(answers) if answer is Answer.TOO_LATE]
        for at in late:
            answers[at] = _amend(tx, ids[at], change)
    return answers


def _amend(tx: Tx, id: str, change: Change) -> Answer:
    found = tx.row("amendable", id=id)
    if found is None:
        return Answer.UNKNOWN
    job = _Row(*found)
    if State(job.state) not in allowed(change):
        return Answer.TOO_LATE
    match change:
        case RescheduleJob():
            return _move(tx, job, change)
        case CancelJob():
            return _cancel(tx, job, change)
        case RetryJob():
            return _revive(tx, job, change)
        case PrioritiseJob():
            tx.run("amend_prioritise", seq=job.seq, priority=change.priority)
            return Answer.DONE
        case DeleteJob():
            return _delete(tx, job)


def _move(tx: Tx, job: _Row, change: RescheduleJob) -> Answer:
    if State(job.state) in DEAD:
        return _revive(tx, job, RetryJob(change.when, change.note))
    if job.asked == "cancel":
        return Answer.TOO_LATE
    due, fixed = change.when.moment(tx.now), change.when.is_fixed(tx.now)
    note(tx, job.seq, "rescheduled", change.note)
    if job.state == State.RUNNING:
        return _ask(tx, job, "reschedule", due=due, fixed=fixed, keep=None)
    tx.run("amend_reschedule", seq=job.seq, due=due, fixed=fixed)
    tx.topics.add(job.queue)
    return Answer.DONE


def _cancel(tx: Tx, job: _Row, change: CancelJob) -> Answer:
    note(tx, job.seq, "cancelled", change.reason)
    if job.state == State.RUNNING:
        return _ask(tx, job, "cancel", due=None, fixed=False, keep=change.keep)
    tx.run("cancel", seq=job.seq, now=tx.now, expires=tx.now + change.keep)
    if job.unique is not None:
        tx.run(
            "unique_free", queue=job.queue, key=job.unique, id=job.id, until=tx.now + job.unique_for
        )
    if not change.keep:
        forget(tx, [job.seq])
    return Answer.DONE


def _ask(tx: Tx, job: _Row, what: str, **details: Any) -> Answer:
    """A running job finishes its run first; what was asked waits with it."""
    tx.run("ask", seq=job.seq, asked=what, **details)
    if what == "cancel":
        tx.topics.add(ASKED)
    return Answer.ASKED


def _revive(tx: Tx, job: _Row, change: RetryJob) -> Answer:
    if aside.stays_unreadable(tx, job.seq):
        return Answer.UNREADABLE
    if job.unique is not None:
        holder = tx.row("unique_holder", queue=job.queue, key=job.unique, now=tx.now)
        if holder is not None and holder[0] != job.id:
            return Answer.TAKEN
        tx.run("unique_take", queue=job.queue, key=job.unique, id=job.id)
    tx.run(
        "amend_retry",
        seq=job.seq,
        due=change.when.moment(tx.now),
        fixed=change.when.is_fixed(tx.now),
    )
    note(tx, job.seq, "revived", change.note)
    tx.topics.add(job.queue)
    return Answer.DONE


def _delete(tx: Tx, job: _Row) -> Answer:
    if job.unique is not None:
        tx.run("unique_give_up", seq=job.seq)
    forget(tx, [job.seq])
    return Answer.DONE
