"""Reading jobs, queues, resource keys and workers. Nothing here changes anything."""

from collections import Counter as Counters
from collections.abc import Sequence

from mita.model.gate import Gate, StoredLimit
from mita.model.job import Job, State
from mita.model.outcome import TimelineEntry
from mita.model.time import Moment
from mita.model.view import (
    Holder,
    JobFilter,
    Page,
    QueueView,
    ResourceView,
    StoredGroup,
    WorkerView,
)
from mita.rules.dead_groups import counted, merged
from mita.rules.gates import next_token_at, tokens_left
from mita.rules.matching import matches, shown_as
from mita.rules.timeline import for_people

from .context import MemoryContext
from .resources import on_hold
from .state.index import ResourceKey, waits_at
from .state.memory_state import RateLevel


def now(context: MemoryContext) -> Moment:
    """The store's clock."""
    return context.now


def queue_names(context: MemoryContext) -> list[str]:
    """The names of all queues, sorted."""
    return sorted(context.state.queues)


def queues(context: MemoryContext) -> list[QueueView]:
    """All queues with their counts."""
    jobs: dict[str, list[Job]] = {name: [] for name in sorted(context.state.queues)}
    for record in context.state.records.values():
        jobs[record.job.queue].append(record.job)
    return [_queue(context, name, all) for name, all in jobs.items()]


def _queue(context: MemoryContext, name: str, jobs: list[Job]) -> QueueView:
    states = [shown_as(job.state, job.due, context.now) for job in jobs]
    ready = [job.due for job, state in zip(jobs, states, strict=True) if state == "ready"]
    oldest = context.now - min(ready) if ready else None
    paused = context.state.queues[name]
    limit = context.state.queue_limits.get(name)
    level_us = context.state.queue_levels.get(name, 0)
    return QueueView(
        name=name,
        oldest=oldest,
        paused=paused,
        limit=limit,
        tokens=tokens_left(limit, level_us, context.now),
        next_start=_next_token(context, limit, level_us),
        **Counters(state.value for state in states),
    )


def _next_token(
    context: MemoryContext, rate: Gate | StoredLimit | None, level_us: int
) -> Moment | None:
    """When this rate allows its next start; None: now."""
    if rate is None or not rate.interval_us:
        return None
    moment = next_token_at(rate, level_us, context.now)
    return moment if moment > context.now else None


def page(context: MemoryContext, want: JobFilter, after: str | None, limit: int) -> Page:
    """Jobs that match, newest first, with ids below `after`."""
    records = context.state.records
    ids = [id for id in sorted(records, reverse=True) if after is None or id < after]
    found = [records[id].job for id in ids if matches(records[id].job, want, context.now)]
    return Page(found[:limit], found[limit - 1].id if len(found) > limit else None)


def dead_groups(
    context: MemoryContext, queue: str | None, task: str | None, limit: int
) -> list[StoredGroup]:
    """Groups of failed jobs, the largest first."""
    want = JobFilter(queue=queue, task=task, state=State.FAILED)
    jobs = (record.job for record in context.state.records.values())
    failed = (job for job in jobs if matches(job, want, context.now))
    return merged(counted(failed, context.now), limit)


def find(context: MemoryContext, ids: Sequence[str]) -> list[Job | None]:
    """The jobs with these ids; None where there is none."""
    return [_find(context, id) for id in ids]


def _find(context: MemoryContext, id: str) -> Job | None:
    record = context.state.records.get(id)
    return None if record is None else record.job


def raw(context: MemoryContext, id: str) -> dict[str, bytes] | None:
    """The fields of a job: bytes as they are, other values as text."""
    job = _find(context, id)
    if job is None:
        return None
    parts = {name: getattr(job, name) for name in job.__struct_fields__}
    return {
        name: value if isinstance(value, bytes) else str(value).encode()
        for name, value in parts.items()
    }


def timeline(context: MemoryContext, id: str) -> list[TimelineEntry]:
    """The timeline of a job, oldest line first."""
    record = context.state.records.get(id)
    return [] if record is None else for_people(record.timeline)


def ahead(context: MemoryContext, id: str) -> int | None:
    """How many jobs start before this ready or blocked job; None for other jobs."""
    job, index = _find(context, id), context.state.index
    if job is None:
        return None
    key = waits_at(job)
    if job.state is State.BLOCKED and key:
        return index.blocked(key).index(id)
    if shown_as(job.state, job.due, context.now) == "ready":
        return index.of_queue(job.queue).ready(context.now, context.ageing).index(id)
    return None


def workers(context: MemoryContext) -> list[WorkerView]:
    """The workers whose last heartbeat has not expired."""
    alive = [live.worker for live in context.state.workers.values() if live.until > context.now]
    return sorted(alive, key=lambda worker: worker.id)


def resources(
    context: MemoryContext, queue: str | None = None, key: str | None = None
) -> list[ResourceView]:
    """Keys that running jobs have, that jobs wait for, that are on hold or limited."""
    index = context.state.index
    held = [key for key in context.state.holds if on_hold(context, key)]
    return [
        _resource(context, found)
        for found in sorted({*held, *index.held(), *index.waited_for(), *context.state.limits})
        if queue in (None, found[0]) and key in (None, found[1])
    ]


def _resource(context: MemoryContext, key: ResourceKey) -> ResourceView:
    state = context.state
    records = [state.records[id] for id in state.index.holders(key)]
    records.sort(key=lambda record: (record.job.started or 0, record.age))
    jobs = [record.job for record in records]
    level = state.rates.get(key, RateLevel())
    rate = Gate(key[1], None, level.interval_us, level.burst)
    return ResourceView(
        queue=key[0],
        key=key[1],
        holders=tuple(Holder(job.id, job.worker, job.started) for job in jobs),
        waiting=len(state.index.blocked(key)),
        held_until=state.holds[key] if on_hold(context, key) else None,
        limit=state.limits.get(key),
        interval_us=level.interval_us,
        burst=level.burst,
        next_start=_next_token(context, rate, level.tat_us),
    )
