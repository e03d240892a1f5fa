"""What can be read, and what maintenance removes."""

from collections import Counter
from typing import Any

from mita.model.job import Job, State
from mita.model.time import Moment
from mita.model.view import Holder, JobFilter, Page, QueueView, ResourceView
from mita.rules.matching import matches, shown_as

from .file import Content, Key, Until
from .jobs import is_due
from .keys import is_on_hold


def queue(content: Content, name: str) -> QueueView:
    jobs = [record.job for record in content.records.values() if record.job.queue == name]
    counts = Counter(shown_as(job.state, job.due, content.now) for job in jobs)
    ready = [job.due for job in jobs if is_due(content, name, job)]
    oldest = content.now - min(ready) if ready else None
    return QueueView(name=name, oldest=oldest, paused=content.queues[name], **counts)  # type: ignore[arg-type]


def page(content: Content, want: JobFilter, after: str | None, limit: int) -> Page:
    found = [
        record.job
        for id, record in sorted(content.records.items(), reverse=True)
        if (after is None or id < after) and matches(record.job, want, content.now)
    ]
    return Page(found[:limit], found[limit - 1].id if len(found) > limit else None)


def ahead(content: Content, job: Job) -> int | None:
    if job.state is State.BLOCKED:
        before = content.with_key((job.queue, job.resource or ""), State.BLOCKED)
    elif is_due(content, job.queue, job):
        before = content.in_order(lambda other: is_due(content, job.queue, other))
    else:
        return None
    return [record.job.id for record in before].index(job.id)


def resources(content: Content, queue: str | None, key: str | None) -> list[ResourceView]:
    keys: set[Key] = {key for key in content.holds if is_on_hold(content, key)}
    for record in content.records.values():
        job = record.job
        if job.resource is not None and job.state in (State.RUNNING, State.BLOCKED):
            keys.add((job.queue, job.resource))
    return [
        _resource(content, found)
        for found in sorted(keys)
        if queue in (None, found[0]) and key in (None, found[1])
    ]


def _resource(content: Content, key: Key) -> ResourceView:
    running = content.with_key(key, State.RUNNING)
    running.sort(key=lambda record: (record.job.started or 0, record.age))
    return ResourceView(
        queue=key[0],
        key=key[1],
        holders=tuple(Holder(r.job.id, r.job.worker, r.job.started) for r in running),
        waiting=len(content.with_key(key, State.BLOCKED)),
        held_until=content.holds[key] if is_on_hold(content, key) else None,
    )


def prune(content: Content, limit: int, most: int) -> int:
    """Delete up to `limit` terminal jobs: those whose time is over, and succeeded ones beyond the
    newest `most` of a queue."""
    records = list(content.records.values())
    going = [record for record in records if is_over(content, record.job.expires)]
    going.sort(key=lambda record: (record.job.expires or 0, record.age))
    for queue in content.queues:
        done = [r for r in records if r.job.queue == queue and r.job.state is State.SUCCEEDED]
        done.sort(key=lambda record: (record.job.finished or 0, record.age), reverse=True)
        going += [record for record in done[most:] if record not in going]
    for record in going[:limit]:
        del content.records[record.job.id]
    _prune_the_rest(content)
    return len(going[:limit])


def is_over(content: Content, until: Moment | None) -> bool:
    return until is not None and until <= content.now


def _prune_the_rest(content: Content) -> None:
    for kept in (content.once_values, content.unique, content.locks):
        _delete_over(content, kept)
    for id in [id for id, (_, until) in content.workers.items() if until <= content.now]:
        del content.workers[id]


def _delete_over(content: Content, kept: dict[Any, Until]) -> None:
    for name in [name for name, found in kept.items() if is_over(content, found.until)]:
        del kept[name]
