"""Reading: what people see. None of this changes anything."""

from collections import Counter as Counters

from mita.model.job import Job, State
from mita.model.outcome import TimelineEntry
from mita.model.view import Holder, JobFilter, Page, QueueView, ResourceView, WorkerView
from mita.rules.matching import matches, shown_as
from mita.rules.timeline import told

from .context import Act
from .index import Place, place
from .resources import on_hold


def queues(act: Act) -> list[QueueView]:
    jobs: dict[str, list[Job]] = {name: [] for name in sorted(act.state.queues)}
    for record in act.state.records.values():
        jobs[record.job.queue].append(record.job)
    return [_queue(act, name, all) for name, all in jobs.items()]


def _queue(act: Act, name: str, jobs: list[Job]) -> QueueView:
    counts = Counters(shown_as(job.state, job.due, act.now) for job in jobs)
    due = min(
        (job.due for job in jobs if shown_as(job.state, job.due, act.now) == "ready"), default=None
    )
    oldest = None if due is None else act.now - due
    return QueueView(name=name, oldest=oldest, paused=act.state.queues[name], **counts)


def page(act: Act, want: JobFilter, after: str | None, limit: int) -> Page:
    newest_first = sorted(act.state.records, reverse=True)
    found = [
        act.state.records[id].job
        for id in newest_first
        if (after is None or id < after) and matches(act.state.records[id].job, want, act.now)
    ]
    return Page(found[:limit], found[limit - 1].id if len(found) > limit else None)


def find(act: Act, id: str) -> Job | None:
    record = act.state.records.get(id)
    return None if record is None else record.job


def raw(act: Act, id: str) -> dict[str, bytes] | None:
    job = find(act, id)
    if job is None:
        return None
    parts = {name: getattr(job, name) for name in job.__struct_fields__}
    return {
        name: value if isinstance(value, bytes) else str(value).encode()
        for name, value in parts.items()
    }


def timeline(act: Act, id: str) -> list[TimelineEntry]:
    record = act.state.records.get(id)
    return [] if record is None else told(record.events)


def ahead(act: Act, id: str) -> int | None:
    job = find(act, id)
    if job is None:
        return None
    where = place(job)
    if job.state is State.BLOCKED and where:
        return act.state.index.blocked(where).index(id)
    return (
        act.state.index.ready(job.queue, act.now).index(id)
        if shown_as(job.state, job.due, act.now) == "ready"
        else None
    )


def workers(act: Act) -> list[WorkerView]:
    present = [
        presence.worker for presence in act.state.workers.values() if presence.until > act.now
    ]
    return sorted(present, key=lambda worker: worker.id)


def resources(act: Act, queue: str | None, key: str | None) -> list[ResourceView]:
    index = act.state.index
    live = [where for where in act.state.holds if on_hold(act, where)]
    places = sorted({*live, *index.held(), *index.waited_for()})
    return [
        _resource(act, where)
        for where in places
        if queue in (None, where[0]) and key in (None, where[1])
    ]


def _resource(act: Act, where: Place) -> ResourceView:
    records = [act.state.records[id] for id in act.state.index.holders(where)]
    records.sort(key=lambda record: (record.job.started or 0, record.age))
    return ResourceView(
        queue=where[0],
        key=where[1],
        holders=tuple(
            Holder(record.job.id, record.job.worker, record.job.started) for record in records
        ),
        waiting=len(act.state.index.blocked(where)),
        held_until=act.state.holds[where] if on_hold(act, where) else None,
    )
