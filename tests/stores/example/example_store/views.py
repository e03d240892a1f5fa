"""What can be read, and what maintenance removes."""

from collections import Counter
from typing import Any

from mita.model.gate import Gate, StoredLimit
from mita.model.job import Job, State
from mita.model.time import Moment
from mita.model.view import Holder, JobFilter, Page, QueueView, ResourceView, StoredGroup
from mita.rules.dead_groups import counted, merged
from mita.rules.gates import ONE_MS_US, keys_of, next_token_at, tokens_left
from mita.rules.matching import matches, shown_as

from . import history
from .file import Content, Key, Level, Until
from .keys import is_on_hold
from .order import in_order, is_due


def queue(content: Content, name: str) -> QueueView:
    jobs = [record.job for record in content.records.values() if record.job.queue == name]
    counts = Counter(shown_as(job.state, job.due, content.now).value for job in jobs)
    ready = [job.due for job in jobs if is_due(content, name, job)]
    oldest = content.now - min(ready) if ready else None
    limit, level = content.limits.get((name, None)), content.levels.get((name, None), Level())
    return QueueView(
        name=name,
        oldest=oldest,
        paused=content.queues[name],
        limit=limit,
        tokens=tokens_left(limit, level.tat_us, content.now),
        next_start=_next_start(content, limit, level),
        **counts,
    )


def _next_start(content: Content, rate: Gate | StoredLimit | None, level: Level) -> Moment | None:
    """When this rate allows its next start; None: now."""
    if rate is None or not rate.interval_us:
        return None
    moment = next_token_at(rate, level.tat_us, content.now)
    return moment if moment > content.now else None


def page(content: Content, want: JobFilter, after: str | None, limit: int) -> Page:
    found = [
        record.job
        for id, record in sorted(content.records.items(), reverse=True)
        if (after is None or id < after) and matches(record.job, want, content.now)
    ]
    return Page(found[:limit], found[limit - 1].id if len(found) > limit else None)


def dead_groups(
    content: Content, queue: str | None, task: str | None, limit: int
) -> list[StoredGroup]:
    want = JobFilter(queue=queue, task=task, state=State.FAILED)
    jobs = [record.job for record in content.records.values()]
    failed = [job for job in jobs if matches(job, want, content.now)]
    return merged(counted(failed, content.now), limit)


def ahead(content: Content, job: Job) -> int | None:
    if job.state is State.BLOCKED:
        before = content.waiting((job.queue, job.blocked_at))
        return [record.job.id for record in before].index(job.id)
    if is_due(content, job.queue, job):
        return in_order(content, job.queue).index(job.id)
    return None


def resources(content: Content, queue: str | None, key: str | None) -> list[ResourceView]:
    found: set[Key] = {limited for limited in content.limits if limited[1] is not None}
    found |= {key for key in content.holds if is_on_hold(content, key)} | content.waited_for()
    for record in content.records.values():
        job = record.job
        if job.state is State.RUNNING:
            found |= {(job.queue, key) for key in keys_of(job.resource, job.gates)}
    return [
        _resource(content, one, str(one[1]))
        for one in sorted(found)
        if queue in (None, one[0]) and key in (None, one[1])
    ]


def _resource(content: Content, key: Key, name: str) -> ResourceView:
    running = content.holders(key)
    running.sort(key=lambda record: (record.job.started or 0, record.age))
    level = content.levels.get(key, Level())
    rate = Gate(name, None, level.interval_us, level.burst)
    return ResourceView(
        queue=key[0],
        key=name,
        holders=tuple(Holder(r.job.id, r.job.worker, r.job.started) for r in running),
        waiting=len(content.waiting(key)),
        held_until=content.holds[key] if is_on_hold(content, key) else None,
        limit=content.limits.get(key),
        interval_us=level.interval_us,
        burst=level.burst,
        next_start=_next_start(content, rate, level),
    )


def prune(content: Content, limit: int, most: int) -> int:
    """Delete up to `limit` terminal jobs: those whose time is over, and succeeded ones beyond the
    newest `most` of a queue, the oldest first."""
    records = list(content.records.values())
    going = [record for record in records if is_over(content, record.job.expires)]
    going.sort(key=lambda record: (record.job.expires or 0, record.age))
    for queue in content.queues:
        done = [r for r in records if r.job.queue == queue and r.job.state is State.SUCCEEDED]
        done.sort(key=lambda record: (record.job.finished or 0, record.age))
        surplus = done[: max(0, len(done) - most)]
        going += [record for record in surplus if record not in going]
    for record in going[:limit]:
        del content.records[record.job.id]
    _prune_the_rest(content)
    return len(going[:limit])


def is_over(content: Content, until: Moment | None) -> bool:
    return until is not None and until <= content.now


def _prune_the_rest(content: Content) -> None:
    for kept in (content.once_values, content.unique, content.locks):
        _delete_over(content, kept)
    content.levels = {
        key: level
        for key, level in content.levels.items()
        if key in content.waited_for() or level.tat_us > content.now * ONE_MS_US
    }
    for id in [id for id, (_, until) in content.workers.items() if until <= content.now]:
        del content.workers[id]
    history.prune(content)


def _delete_over(content: Content, kept: dict[Any, Until]) -> None:
    for name in [name for name, found in kept.items() if is_over(content, found.until)]:
        del kept[name]
