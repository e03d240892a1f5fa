"""Groups of failed jobs, described for people."""

from collections.abc import Mapping
from typing import Any

from mita.model.dead_group import DeadGroup
from mita.model.job import Job
from mita.model.view import StoredGroup
from mita.ports.store import Store
from mita.rules.display import as_datetime
from mita.rules.fingerprint import FailureDescription, described
from mita.rules.sealed import is_sealed_text, shown_text
from mita.tasks import Task

from .record import secret_of


async def read_dead_groups(
    store: Store,
    queue: str | None,
    task: str | None,
    limit: int,
    tasks: Mapping[str, Task[Any, Any]],
) -> tuple[DeadGroup, ...]:
    """Return the groups of failed jobs, each described by its sample."""
    groups = await store.dead_groups(queue, task, limit)
    jobs = await store.find([one.sample for one in groups])
    return tuple(_dead_group(group, job, tasks) for group, job in zip(groups, jobs, strict=True))


def _dead_group(
    group: StoredGroup, job: Job | None, tasks: Mapping[str, Task[Any, Any]]
) -> DeadGroup:
    """A sample that was deleted meanwhile is not described."""
    what = FailureDescription("", "", "") if job is None else _described(job, tasks)
    return DeadGroup(
        group=group.group,
        count=group.count,
        first=as_datetime(group.first),
        last=as_datetime(group.last),
        sample=group.sample,
        task="" if job is None else job.task,
        queue="" if job is None else job.queue,
        error_type=what.type,
        message=what.message,
        frame=what.frame,
        hours=group.hours,
    )


def _described(job: Job, tasks: Mapping[str, Task[Any, Any]]) -> FailureDescription:
    error = job.error or ""
    if is_sealed_text(error):
        return FailureDescription("", shown_text(error), "")
    return described(error, secret=bool(secret_of(job, tasks)))
