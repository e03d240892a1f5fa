"""Unique keys: of all jobs of a queue with one key, only one is not terminal.

A key may stay taken for a while after its job has ended (`unique_for`)."""

from mita.model.job import Job
from mita.model.time import Wait

from .context import MemoryContext
from .state.memory_state import UniqueHolder


def holder(context: MemoryContext, queue: str, key: str | None) -> str | None:
    """The id of the job that has this key, or None."""
    found = None if key is None else context.state.unique.get((queue, key))
    if found is None:
        return None
    over = context.has_ended(found.id) if found.until is None else found.until <= context.now
    return None if over else found.id


def take(context: MemoryContext, job: Job, throttle: Wait = 0) -> None:
    """The key of this job belongs to it from now on: until it ends, or for `throttle`."""
    if job.unique is not None:
        until = context.now + throttle if throttle else None
        context.state.unique[job.queue, job.unique] = UniqueHolder(job.id, until)


def free(context: MemoryContext, job: Job) -> None:
    """The job has ended: its key is free, after its `unique_for`."""
    found = None if job.unique is None else context.state.unique.get((job.queue, job.unique))
    if job.unique is None or found is None or found.id != job.id or found.until is not None:
        return  # another job has taken the key over, or a throttle keeps it
    if job.unique_for > 0:
        until = context.now + job.unique_for
        context.state.unique[job.queue, job.unique] = UniqueHolder(job.id, until)
    else:
        del context.state.unique[job.queue, job.unique]


def delete(context: MemoryContext, job: Job) -> None:
    """The job is deleted: a key that it still has is free at once."""
    if job.unique is not None and holder(context, job.queue, job.unique) == job.id:
        del context.state.unique[job.queue, job.unique]
