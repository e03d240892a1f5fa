"""Enqueuing jobs."""

from collections.abc import Sequence

from mita.model.job import NewJob, Receipt, State
from mita.model.outcome import TimelineKind
from mita.rules.twins import TwinAct, act_on_twin, debounced_due
from mita.stores.shared import room

from . import unique
from .codec import to_job
from .context import MemoryContext


def enqueue(context: MemoryContext, jobs: Sequence[NewJob]) -> list[Receipt]:
    """Store jobs. A job whose id exists, or whose unique key is taken, is not stored: its receipt
    names the existing job."""
    room.check(jobs, context.room)
    return [_enqueue(context, job) for job in jobs]


def _enqueue(context: MemoryContext, new: NewJob) -> Receipt:
    if new.id in context.state.records:
        return Receipt(new.id, created=False)
    if (twin := unique.holder(context, new.queue, new.unique)) and _meets(context, new, twin):
        return Receipt(twin, created=False)
    job = to_job(new, context.now)
    context.add(job)
    unique.take(context, job, new.throttle)
    context.state.queues.setdefault(new.queue, None)
    context.topics.add(new.queue)
    return Receipt(new.id)


def _meets(context: MemoryContext, new: NewJob, twin: str) -> bool:
    """Act on the job that has the unique key. Returns whether it stands for the new job, which is
    not stored then."""
    record = context.state.records.get(twin)
    act = TwinAct.KEEP if record is None else act_on_twin(new, record.job.state)
    if act is TwinAct.MOVE and record is not None:
        due = debounced_due(new, record.job.created, context.now)
        context.note(record, TimelineKind.DEBOUNCED)
        context.change(
            record,
            state=State.QUEUED,
            due=due,
            payload=new.payload,
            options=new.options,
            headers=new.headers,
            blocked_at=None,
        )
        context.topics.add(new.queue)
    return act is not TwinAct.REPLACE
