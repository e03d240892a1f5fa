"""Other arguments for a job: merged into the stored ones, and checked."""

from collections.abc import Mapping
from typing import Any

from mita.errors import UsageError
from mita.model.job import Job
from mita.model.outcome import RewriteJob
from mita.rules.fitting import check_room
from mita.rules.sealed import OWN_TASKS
from mita.rules.text import note
from mita.tasks import Task
from mita.tasks.amended import amended_payload


def rewrite_job(
    job: Job,
    tasks: Mapping[str, Task[Any, Any]],
    arguments: Mapping[str, Any],
    reason: str,
    room: int | None,
) -> RewriteJob:
    """Return the change that gives this job other arguments. `room` is that of the store. Raises
    `UsageError` if they do not fit the job's task, or if this app does not have the task."""
    if job.task.startswith(OWN_TASKS):
        raise UsageError(f"job {job.id!r} is one of Mita itself ({job.task}): it stays as it is")
    task = tasks.get(job.task)
    if task is None:
        raise UsageError(
            f"job {job.id!r} belongs to task {job.task!r}, which this app does not have: arguments "
            "are checked against the annotations of the task, so amend the job with the app that "
            "declares it"
        )
    if not isinstance(arguments, Mapping):
        raise UsageError(
            f"arguments={arguments!r}: give a dict of the arguments to change, by their names"
        )
    payload = amended_payload(task, job.payload, arguments)
    check_room(job.task, len(payload) + len(job.headers), room)
    return RewriteJob(payload, rewrite_note(arguments, reason))


def rewrite_note(arguments: Mapping[str, Any], reason: str) -> str:
    """The line of the timeline: which arguments were changed, and why. It never has their
    values."""
    return note(f"{', '.join(arguments)}{'; ' if reason else ''}{reason}")
