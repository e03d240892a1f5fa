"""From the record of a job to Django's `TaskResult`."""

import builtins
import re
from datetime import UTC, datetime
from typing import Any

from django.tasks import Task, TaskResult, TaskResultStatus
from django.tasks.base import TaskError

from mita.model.record import DisplayState, Failure, JobRecord

from .errors import WITHOUT_A_CLASS, TaskCancelled

_CAUSED_BY = re.compile(r"\ncaused by (?=[\w.<>]+(?::|\n|$))")
_OURS = re.compile(
    r'  File "[^"\n]*mita/contrib/django/(?:handlers|runs)\.py", line .*\n(?:    .*\n?)?'
)
_STATUS = {
    DisplayState.RUNNING: TaskResultStatus.RUNNING,
    DisplayState.SUCCEEDED: TaskResultStatus.SUCCESSFUL,
    DisplayState.FAILED: TaskResultStatus.FAILED,
    DisplayState.CANCELLED: TaskResultStatus.FAILED,
}


def time_of_enqueue(id: str) -> datetime:
    """When a job was enqueued, by the clock of the program that did: an id begins with it."""
    return datetime.fromtimestamp(int(id[:12], 16) / 1000, UTC)


def new_result(task: Task, args: Any, kwargs: Any, backend: str) -> TaskResult:
    """The result of a task that is about to be enqueued; its id is not known yet. Raises
    `TypeError` for arguments that are no JSON."""
    return TaskResult(
        task=task,
        id="",
        status=TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        args=args,
        kwargs=kwargs,
        backend=backend,
        errors=[],
        worker_ids=[],
    )


def change(result: TaskResult, **values: Any) -> None:
    """Set attributes of a result, which is frozen for everybody else."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def result_of_record(record: JobRecord, task: Task, backend: str) -> TaskResult:
    """Make the result of a job. `task` is the task as it was enqueued."""
    stored = record.arguments or {}
    result = new_result(task, stored.get("args", []), stored.get("kwargs", {}), backend)
    attempts = [one for one in record.failures if one.started is not None]  # others never ran
    starts = [one.started for one in attempts if one.started is not None]
    workers = [one.worker or "" for one in attempts]
    if record.started is not None and record.started not in starts:  # a run that has not failed
        starts.append(record.started)
        workers.append(record.worker or "")
    change(
        result,
        id=record.id,
        status=_STATUS.get(record.state, TaskResultStatus.READY),
        enqueued_at=time_of_enqueue(record.id),
        started_at=min(starts, default=None),
        last_attempted_at=max(starts, default=None),
        finished_at=record.finished,
        errors=[*map(_error, record.failures), *_end_without_error(record)],
        worker_ids=workers,
        _return_value=record.result,
    )
    return result


def _end_without_error(record: JobRecord) -> list[TaskError]:
    if record.state is not DisplayState.CANCELLED:
        return []
    note = record.timeline[-1].note if record.timeline else ""
    kind = record.timeline[-1].kind if record.timeline else "cancelled"
    return [TaskError(exception_class_path=_path(TaskCancelled), traceback=f"{kind}: {note}\n")]


def _error(failure: Failure) -> TaskError:
    return TaskError(
        exception_class_path=class_path(failure.type), traceback=traceback_of(failure.text)
    )


def class_path(kind: str) -> str:
    """The path from which Django imports the class of an error, from its name in the store."""
    if kind in WITHOUT_A_CLASS:
        return _path(WITHOUT_A_CLASS[kind])
    return f"builtins.{kind}" if hasattr(builtins, kind) else kind


def _path(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def traceback_of(text: str) -> str:
    """The text of an error in the order of a Python traceback: causes and frames first."""
    blocks = [_block(part) for part in reversed(_CAUSED_BY.split(text))]
    because = "\nThe above exception was the direct cause of the following exception:\n\n"
    return because.join(blocks)


def _block(part: str) -> str:
    head, mark, rest = part.partition('\n  File "')
    frames = _OURS.sub("", f'  File "{rest}\n') if mark else ""
    trace = f"Traceback (most recent call last):\n{frames}" if frames else ""
    return f"{trace}{head}\n"
