"""The backend for Django's `TASKS` setting: `"BACKEND": "mita.contrib.django.MitaBackend"`."""

from collections.abc import Mapping
from typing import Any

try:
    from django.tasks import Task, TaskResult
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "MitaBackend needs Django 6, which has django.tasks: pip install 'Django>=6'. With an "
        "older Django, declare tasks with @app.task of mita.contrib.django",
        name=error.name,
    ) from error
import msgspec
from asgiref.sync import sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.tasks.backends.base import BaseTaskBackend
from django.tasks.base import DEFAULT_TASK_PRIORITY
from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
from django.tasks.signals import task_enqueued
from django.utils import timezone

from mita.contrib.outbox.rows import job_of
from mita.errors import UsageError
from mita.model.outbox import OutboxRow
from mita.model.record import JobRecord
from mita.tasks import Call

from .conf import is_derived, project_app, project_settings
from .context import TaskWithOptions
from .handlers import declare, result_of, result_of_new
from .results import change, new_result, time_of_enqueue
from .signals import send_ends
from .transactions import refuse_in_tests, send


class MitaBackend(BaseTaskBackend):
    """Runs Django's tasks as jobs of Mita.

    `OPTIONS` are the defaults of its tasks, as `@app.task(…)` takes them: "retry", "timeout", …"""

    task_class = TaskWithOptions
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        options = dict(self.options)
        for name in ("queue", "priority", "name"):
            if name in options:
                raise ImproperlyConfigured(
                    f"TASKS[{alias!r}]['OPTIONS'][{name!r}]: Django's own @task says it"
                )
        self._choices = options

    def validate_task(self, task: Task) -> None:
        """Raise `InvalidTask` for a task that cannot be run; remember it otherwise."""
        super().validate_task(task)
        try:
            declare(send_ends(project_app()), task, self._choices)
        except UsageError as error:
            raise InvalidTask(str(error)) from error

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TaskResult:
        """Enqueue a task. Inside `atomic()` it is part of the transaction."""
        self.validate_task(task)
        result = new_result(task, list(args), dict(kwargs), self.alias)
        app, given = project_app(), project_settings()
        if is_derived(app):
            refuse_in_tests()
        is_inside = given.wait_for_commit and connections[given.database].in_atomic_block
        sent = send(app, self._call(task, result), given.database if is_inside else None)
        if not sent.is_new:
            return self.get_result(sent.id)
        change(result, id=sent.id, enqueued_at=time_of_enqueue(sent.id))

        def tell() -> None:
            task_enqueued.send(type(self), task_result=result)

        if is_inside:
            transaction.on_commit(tell, using=given.database)
        else:
            tell()
        return result

    def get_result(self, result_id: str) -> TaskResult:
        """Return the result of a task, from any process. Raises `TaskResultDoesNotExist`."""
        app = project_app()
        if not isinstance(result_id, str):
            raise TaskResultDoesNotExist(result_id)
        record = app.get_sync(result_id)
        if record is None and app.has_outbox:
            row = app._run_sync(app.outbox.row(result_id))  # noqa: SLF001
            return self._waiting(result_id, row)
        return self._result(result_id, record)

    async def aget_result(self, result_id: str) -> TaskResult:
        """`get_result`, from async code."""
        app = await sync_to_async(project_app)()
        if not isinstance(result_id, str):
            raise TaskResultDoesNotExist(result_id)
        record = await app.get(result_id)
        if record is None and app.has_outbox:
            return self._waiting(result_id, await app.outbox.row(result_id))
        return self._result(result_id, record)

    def _call(self, task: Task, result: TaskResult) -> Call[Any]:
        bound = declare(project_app(), task, self._choices).options(
            queue=task.queue_name,
            priority=task.priority,
            **(getattr(task, "mita", None) or {}),
        )
        stored: dict[str, Any] = {}
        if task.priority != DEFAULT_TASK_PRIORITY:
            stored["priority"] = int(task.priority)
        if task.backend != "default":
            stored["backend"] = task.backend
        if task.run_after is not None:
            stored["run_after"] = task.run_after.isoformat()
            aware = timezone.is_aware(task.run_after)
            bound = bound.at(task.run_after if aware else timezone.make_aware(task.run_after))
        return bound.call(result.args, result.kwargs, **stored)

    def _waiting(self, id: str, row: OutboxRow | None) -> TaskResult:
        """The result of a task that is in the outbox, and not in the store yet."""
        if row is None or row.id != id:
            raise TaskResultDoesNotExist(id)
        try:
            return result_of_new(job_of(row))
        except (UsageError, msgspec.MsgspecError) as error:
            raise TaskResultDoesNotExist(f"{id}: {error}") from error

    def _result(self, id: str, record: JobRecord | None) -> TaskResult:
        if record is None:
            raise TaskResultDoesNotExist(id)
        try:
            return result_of(record)
        except UsageError as error:
            raise TaskResultDoesNotExist(f"{id}: {error}") from error
