"""Unique keys: of all jobs of a queue with one key, only one is not terminal.

A key may stay taken for a while after its job has ended (`unique_for`)."""

from collections.abc import Iterable

from mita.model.job import NewJob
from mita.model.time import Wait

from .context import SqliteContext, as_json


def take_or_holder(context: SqliteContext, job: NewJob) -> str | None:
    """Take the unique key for a new job. Returns the id of the job that has it already, or None."""
    found = holder(context, job.queue, job.unique)
    if found is None:
        take(context, job.queue, job.unique, job.id, job.throttle)
    return found


def holder(context: SqliteContext, queue: str, key: str | None) -> str | None:
    """The id of the job that has this key, or None."""
    found = context.row("unique_holder", queue=queue, key=key, now=context.now)
    return None if found is None else str(found[0])


def take(context: SqliteContext, queue: str, key: str | None, id: str, throttle: Wait = 0) -> None:
    """The key belongs to this job from now on: until it ends, or for `throttle`."""
    until = context.now + throttle if throttle else None
    context.run("unique_take", queue=queue, key=key, id=id, until=until)


def free(context: SqliteContext, queue: str, key: str, id: str, lasts: int) -> None:
    """The job has ended: its key is free after `lasts`, unless a throttle keeps it."""
    context.run("unique_free", queue=queue, key=key, id=id, until=context.now + lasts)


def free_of_jobs(context: SqliteContext, seqs: Iterable[int]) -> None:
    """These jobs have ended: their keys are free, each after its `unique_for`."""
    context.run("unique_free_many", seqs=as_json(seqs), now=context.now)
