"""Which jobs were enqueued: `enqueued` and `assert_enqueued` of a lab."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from mita.errors import UsageError, did_you_mean
from mita.model.job import Job
from mita.model.record import DisplayState
from mita.model.time import Moment
from mita.rules.bulk import OWN_TASK_NAMES
from mita.rules.display import as_datetime, shown
from mita.rules.options import options_of
from mita.tasks import Task
from mita.tasks.calls import unknown_task
from mita.tasks.placeholders import plain_arguments

MISSING = object()  # the job has no such argument


class EnqueuedJob(Struct, frozen=True, kw_only=True):
    """A job of a lab. `arguments` are by parameter name and have the types that the handler gets,
    defaults included. `state` is the state of now; `due` may be later than it was at first, if the
    job was retried or rescheduled."""

    id: str
    task: str
    queue: str
    state: DisplayState
    arguments: dict[str, Any]
    priority: int
    tags: tuple[str, ...]
    created: datetime
    due: datetime

    @property
    def after(self) -> timedelta:
        """The delay: from when it was enqueued until it is due."""
        return self.due - self.created


class WantedJob(Struct, frozen=True, kw_only=True):
    """What a job must be like. None: anything. An argument that is not named may have any value."""

    task: str | None = None
    arguments: dict[str, Any] = {}
    queue: str | None = None
    after: timedelta | None = None
    at: datetime | None = None
    state: str | None = None
    tags: tuple[str, ...] = ()

    def differences(self, job: EnqueuedJob) -> dict[str, tuple[Any, Any]]:
        """What differs, by name: the wanted value, and that of the job."""
        values: dict[str, tuple[Any, Any]] = {
            name: (value, job.arguments.get(name, MISSING))
            for name, value in self.arguments.items()
        }
        for name in ("task", "queue", "after", "at", "state"):
            value = getattr(self, name)
            if value is not None:
                values[name] = value, job.due if name == "at" else getattr(job, name)
        found = {name: pair for name, pair in values.items() if pair[0] != pair[1]}
        if not set(self.tags) <= set(job.tags):
            found["tags"] = self.tags, job.tags
        return found


def enqueued_jobs(
    jobs: Iterable[Job], now: Moment, tasks: Mapping[str, Task[Any, Any]]
) -> list[EnqueuedJob]:
    """The jobs of a lab, without those by which Mita runs flows."""
    return [
        EnqueuedJob(
            id=job.id,
            task=_name(job.task, tasks),
            queue=job.queue,
            state=shown(job, now),
            arguments=_arguments(job, tasks),
            priority=job.priority,
            tags=options_of(job.options).tags,
            created=as_datetime(job.created),
            due=as_datetime(job.due),
        )
        for job in jobs
        if job.task not in OWN_TASK_NAMES
    ]


def _name(stored: str, tasks: Mapping[str, Task[Any, Any]]) -> str:
    """The name of the task; a job may have been stored under an alias."""
    return tasks[stored].name if stored in tasks else stored


def _arguments(job: Job, tasks: Mapping[str, Task[Any, Any]]) -> dict[str, Any]:
    """The arguments as the handler gets them; as plain values if they do not fit the task, as those
    of a step whose results are not there yet."""
    if job.task in tasks:
        arguments = tasks[job.task].arguments
        try:
            positional, named = arguments.unpack(job.payload)
        except UsageError:
            pass
        else:
            return {**dict(zip(arguments.parameters, positional, strict=False)), **named}
    try:
        plain = plain_arguments(job.payload)
    except (ValueError, RecursionError):
        plain = None
    return plain if isinstance(plain, dict) else {}


_OPTIONS = ("count", "queue", "after", "at", "state", "tags")


def wanted_arguments(
    task: Task[Any, Any],
    tasks: Mapping[str, Task[Any, Any]],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Iterable[str],
) -> dict[str, Any]:
    """The arguments by name. Raises `UsageError` for what the task cannot have been called with.
    `options` are the names of those that were given."""
    _check_task(task, tasks)
    names = task.arguments.parameters
    if len(args) > len(names):
        raise UsageError(
            f"task {task.name!r} takes {len(names)} arguments ({', '.join(names) or 'none'}), "
            f"and {len(args)} are to be compared"
        )
    both = [name for name in names[: len(args)] if name in kwargs]
    unknown = [name for name in kwargs if name not in names]
    clash = [name for name in options if name in names[len(args) :]]
    if both:
        raise UsageError(f"task {task.name!r}: the argument {both[0]!r} is given twice")
    if unknown:
        hint = did_you_mean(unknown[0], [*names, *_OPTIONS])
        raise UsageError(
            f"task {task.name!r} has no parameter {unknown[0]!r}{hint}; it has "
            f"{', '.join(names) or 'none'}. Beside them there are {', '.join(_OPTIONS)}"
        )
    if clash:
        raise UsageError(
            f"task {task.name!r} has a parameter {clash[0]!r}, so {clash[0]}= could mean the "
            "argument or the option: pass the argument by position, or compare "
            "[job.arguments for job in it.enqueued(task)]"
        )
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _check_task(task: object, tasks: Mapping[str, Task[Any, Any]]) -> None:
    if not isinstance(task, Task):
        raise UsageError(f"{task!r} is not a task: give the function with @app.task, not its call")
    if tasks.get(task.name) is not task:
        known = task.name in tasks
        raise UsageError(
            f"the task {task.name!r} belongs to another app, whose jobs are not in this lab"
            if known
            else unknown_task(task.name, tasks)
        )
