"""Django's tasks as tasks of Mita: what a worker runs for them.

A worker finds a task among the tasks that it has imported. It never imports by a name that
came from the store."""

from collections.abc import Callable
from datetime import UTC, datetime
from inspect import iscoroutinefunction
from typing import Any

from django.tasks import Task, TaskResult, TaskResultStatus
from django.tasks.signals import task_started
from django.utils.json import normalize_json

from mita import Job, Mita, Reschedule
from mita.errors import UsageError
from mita.model.job import NewJob
from mita.model.record import JobRecord
from mita.tasks import Task as MitaTask
from mita.tasks.placeholders import plain_arguments

from .context import MitaContext
from .results import change, new_result, result_of_record, time_of_enqueue

DECLARED: dict[str, Task] = {}  # by path, as it was declared
# what runs now and what ended a moment ago, by id and attempt, until `signals` has told it
RUNS: dict[tuple[str, int], TaskResult] = {}
MOST_RUNS = 20_000


def declare(app: Mita, task: Task, choices: dict[str, Any]) -> MitaTask[Any, Any]:
    """Return the task of Mita that runs a task of Django; it is made at the first call. `choices`
    are its options."""
    path = task.module_path
    known = app.tasks.get(path)
    if path not in DECLARED or DECLARED[path].func is not task.func:
        DECLARED[path] = task
    if known is not None:
        return known
    make = _async_handler if iscoroutinefunction(task.func) else _sync_handler
    declared: MitaTask[Any, Any] = app.task(name=path, **choices)(make(path))
    return declared


def stored_task(stored: dict[str, Any], path: str) -> Task:
    """The task as it was enqueued: as it is declared, with what the caller chose. Raises
    `UsageError` if this process does not know it."""
    try:
        task = DECLARED[path]
    except KeyError:
        raise UsageError(
            f"this process has not imported the task {path!r}: put it into tasks.py of an "
            "installed app, or its module into MITA['IMPORTS']"
        ) from None
    later = stored.get("run_after")
    chosen = {
        "priority": stored.get("priority", 0),
        "backend": stored.get("backend", task.backend),
        "queue_name": stored["queue_name"],
        "run_after": None if later is None else datetime.fromisoformat(later),
    }
    copy = object.__new__(type(task))  # without asking the backend again whether it is valid
    for name in type(task).__dataclass_fields__:
        object.__setattr__(copy, name, chosen.get(name, getattr(task, name)))
    return copy


def result_of(record: JobRecord) -> TaskResult:
    """The result of a job of a Django task. Raises `UsageError` if the task is not known here."""
    stored = {**(record.arguments or {}), "queue_name": record.queue}
    task = stored_task(stored, record.task)
    return result_of_record(record, task, task.backend)


def result_of_new(job: NewJob) -> TaskResult:
    """The result of a job that is not in the store yet. Raises `UsageError` if its task is not
    known here."""
    stored = {**plain_arguments(job.payload), "queue_name": job.queue}
    task = stored_task(stored, job.task)
    result = new_result(task, stored.get("args", []), stored.get("kwargs", {}), task.backend)
    change(result, id=job.id, enqueued_at=time_of_enqueue(job.id))
    return result


# ------------------------------------------------------------------------------------------- runs


def _sync_handler(path: str) -> Callable[..., Any]:
    def handler(
        job: Job,
        args: list[Any],
        kwargs: dict[str, Any],
        priority: int = 0,
        run_after: str | None = None,
        backend: str = "default",
    ) -> Any:
        result = _begin(job, path, args, kwargs, priority, run_after, backend)
        if job.attempt > 1:
            _learn(result, _app().get_sync(job.id))
        task_started.send_robust(_backend_class(), task_result=result)
        return _end(result, DECLARED[path].func(*_context(result, job), *args, **kwargs))

    return handler


def _async_handler(path: str) -> Callable[..., Any]:
    async def handler(
        job: Job,
        args: list[Any],
        kwargs: dict[str, Any],
        priority: int = 0,
        run_after: str | None = None,
        backend: str = "default",
    ) -> Any:
        result = _begin(job, path, args, kwargs, priority, run_after, backend)
        if job.attempt > 1:
            _learn(result, await _app().get(job.id))
        await task_started.asend_robust(_backend_class(), task_result=result)
        return _end(result, await DECLARED[path].func(*_context(result, job), *args, **kwargs))

    return handler


def _begin(
    job: Job,
    path: str,
    args: list[Any],
    kwargs: dict[str, Any],
    priority: int,
    run_after: str | None,
    backend: str,
) -> TaskResult:
    """Make the result of a run that starts now, and remember it."""
    stored = {
        "priority": priority,
        "run_after": run_after,
        "backend": backend,
        "queue_name": job.queue,
    }
    task = stored_task(stored, path)
    result, now = new_result(task, args, kwargs, task.backend), datetime.now(UTC)
    change(
        result,
        id=job.id,
        status=TaskResultStatus.RUNNING,
        enqueued_at=time_of_enqueue(job.id),
        started_at=now,
        last_attempted_at=now,
        worker_ids=[_worker(job)],
    )
    if len(RUNS) >= MOST_RUNS:  # their events were lost
        RUNS.clear()
    RUNS[job.id, job.attempt] = result
    return result


def _learn(result: TaskResult, record: JobRecord | None) -> None:
    """Add what is known of earlier attempts."""
    if record is not None:
        before = result_of(record)
        change(
            result,
            started_at=before.started_at or result.started_at,
            errors=before.errors,
            worker_ids=before.worker_ids or result.worker_ids,
        )


def _context(result: TaskResult, job: Job) -> tuple[MitaContext, ...]:
    return (MitaContext(task_result=result, job=job),) if result.task.takes_context else ()


def _end(result: TaskResult, value: Any) -> Any:
    """Return the value as JSON. Raises `TypeError` if it is none."""
    if isinstance(value, Reschedule):
        return value
    plain = normalize_json(value)
    change(result, _return_value=plain)
    return plain


def _worker(job: Job) -> str:
    run: Any = job._run  # noqa: SLF001
    return str(run.context.worker)


def _app() -> Mita:
    from .conf import project_app

    return project_app()


def _backend_class() -> type:
    from .backend import MitaBackend

    return MitaBackend
