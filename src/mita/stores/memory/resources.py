"""Resource keys: at most so many jobs with one key run at once."""

from collections.abc import Collection

from mita.model.job import Job, State
from mita.model.time import Moment

from .context import MemoryContext
from .state.index import ResourceKey, resource_key


def on_hold(context: MemoryContext, key: ResourceKey) -> bool:
    """Whether no job with this key may start now."""
    return context.state.holds.get(key, context.now) > context.now


def may_run(context: MemoryContext, job: Job) -> bool:
    """Whether the key of this job is free, or it has none."""
    key = resource_key(job)
    return key is None or (
        not on_hold(context, key) and len(context.state.index.holders(key)) < job.limit
    )


def wake(context: MemoryContext, key: ResourceKey, at_most: int | None = None) -> None:
    """Return the first jobs that wait for a key to the queue: as many as may run by the limit of
    the first of them."""
    waiting = [context.state.records[id] for id in context.state.index.blocked(key)]
    if not waiting or on_hold(context, key):
        return
    free = max(0, waiting[0].job.limit - len(context.state.index.holders(key)))
    for record in waiting[: free if at_most is None else min(free, at_most)]:
        context.change(record, state=State.QUEUED)
        context.topics.add(key[0])


def hold_key(context: MemoryContext, key: ResourceKey, until: Moment) -> None:
    """No job with this key starts before `until`. A point in time that is not in the future lifts
    the hold."""
    context.topics.add(key[0])  # workers wait until the end of a hold, which has changed
    context.state.holds[key] = until
    if until <= context.now:
        _end_hold(context, key)


def _end_hold(context: MemoryContext, key: ResourceKey) -> None:
    del context.state.holds[key]
    wake(context, key)


def end_holds(context: MemoryContext, queues: Collection[str] | None = None) -> None:
    """Delete the holds that are over, in these queues or in all (None)."""
    over = [key for key, until in context.state.holds.items() if until <= context.now]
    for key in over:
        if queues is None or key[0] in queues:
            _end_hold(context, key)


def free_keys(context: MemoryContext) -> None:
    """Take the keys from jobs that do not run, and wake the jobs that wait for a free key."""
    index = context.state.index
    for key in index.held():
        for id in [id for id in index.holders(key) if not _runs(context, id)]:
            index.remove_holder(key, id)
    for key in index.waited_for():
        wake(context, key)


def _runs(context: MemoryContext, id: str) -> bool:
    record = context.state.records.get(id)
    return record is not None and record.job.state is State.RUNNING
