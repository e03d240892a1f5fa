"""The batches of jobs that were enqueued, and of repeats that dropped windows."""

from collections.abc import Iterable

from mita.model.event import EventBatch, Kind
from mita.model.job import NewJob
from mita.model.repeat import Firing
from mita.model.time import Moment
from mita.rules.flow import FLOW_TASKS


def enqueued_batches(jobs: Iterable[NewJob], at: Moment) -> list[EventBatch]:
    """One batch for each task, queue and tags. Mita's own jobs of flows have none."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for job in jobs:
        groups.setdefault((job.task, job.queue, job.tags), []).append(job.id)
    return [
        EventBatch(Kind.ENQUEUED, task, queue, at, ids=ids, tags=tags)
        for (task, queue, tags), ids in groups.items()
        if task not in FLOW_TASKS
    ]


def dropped_batches(firings: Iterable[Firing], at: Moment) -> list[EventBatch]:
    """One batch for each firing that dropped windows. A firing without jobs, because its limit was
    reached, has no task and no queue."""
    return [
        EventBatch(
            Kind.DROPPED,
            task,
            queue,
            at,
            reason=firing.missed,
            ids=[firing.key],
            count=firing.dropped,
        )
        for firing in firings
        if firing.dropped
        for task, queue in [
            (firing.jobs[0].task, firing.jobs[0].queue) if firing.jobs else ("", "")
        ]
    ]
