"""Resource keys and unique keys."""

from collections.abc import Collection

from mita.model.job import Job, State
from mita.model.time import Moment
from mita.rules.states import TERMINAL

from .file import Content, Key, Until

# ---------------------------------------------------------------- resource keys


def is_on_hold(content: Content, key: Key) -> bool:
    return content.holds.get(key, content.now) > content.now


def may_run(content: Content, job: Job) -> bool:
    """Whether the job's resource key is free."""
    if job.resource is None:
        return True
    key = (job.queue, job.resource)
    running = content.with_key(key, State.RUNNING)
    return not is_on_hold(content, key) and len(running) < job.limit


def wake(content: Content, key: Key, most: int | None = None) -> None:
    """Put blocked jobs of this key back into the queue: as many as may run, but at most `most`."""
    waiting = content.with_key(key, State.BLOCKED)
    if not waiting or is_on_hold(content, key):
        return
    free = max(0, waiting[0].job.limit - len(content.with_key(key, State.RUNNING)))
    for record in waiting[: free if most is None else min(free, most)]:
        record.change(state=State.QUEUED)
        content.notify(key[0])


def wake_all(content: Content) -> None:
    jobs = [record.job for record in content.records.values()]
    for key in {(job.queue, job.resource or "") for job in jobs if job.state is State.BLOCKED}:
        wake(content, key)


def hold(content: Content, key: Key, until: Moment) -> None:
    """Start no job with this key before `until`. A point in time that is over ends the hold."""
    content.notify(key[0])
    content.holds[key] = until
    end_holds(content, [key[0]])


def end_holds(content: Content, queues: Collection[str] | None = None) -> None:
    """End the holds that are over, in these queues or in all."""
    for key in [key for key, until in content.holds.items() if until <= content.now]:
        if queues is None or key[0] in queues:
            del content.holds[key]
            wake(content, key)


# ---------------------------------------------------------------- unique keys


def unique_owner(content: Content, queue: str, key: str | None) -> str | None:
    """The id of the job that has this unique key now."""
    found = content.unique.get((queue, key)) if key is not None else None
    if found is None:
        return None
    if found.until is not None:
        return str(found.value) if found.until > content.now else None
    record = content.records.get(found.value)
    return None if record is None or record.job.state in TERMINAL else record.job.id


def take_unique(content: Content, job: Job) -> None:
    if job.unique is not None:
        content.unique[job.queue, job.unique] = Until(job.id)


def end_unique(content: Content, job: Job) -> None:
    """The job has ended: its key is free, or will be after `unique_for`."""
    if job.unique is None:
        return
    if job.unique_for > 0:
        content.unique[job.queue, job.unique] = Until(job.id, content.now + job.unique_for)
    else:
        del content.unique[job.queue, job.unique]


def give_up_unique(content: Content, job: Job) -> None:
    """The job is deleted: a key that it still has is free at once."""
    if job.unique is not None and unique_owner(content, job.queue, job.unique) == job.id:
        del content.unique[job.queue, job.unique]
