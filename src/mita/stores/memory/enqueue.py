"""Enqueuing jobs."""

from collections.abc import Sequence

from mita.model.job import NewJob, Receipt
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
    if earlier := unique.holder(context, new.queue, new.unique):
        return Receipt(earlier, created=False)
    job = to_job(new, context.now)
    context.add(job)
    unique.take(context, job)
    context.state.queues.setdefault(new.queue, None)
    context.topics.add(new.queue)
    return Receipt(new.id)
