"""What Django's tasks have beside what Django gives them: options of Mita, and their job."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.tasks import Task, TaskContext

from mita import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class MitaContext(TaskContext):
    """The context of a task with `takes_context=True`. `job` is the job of Mita: progress, steps,
    sleep, signals, cancellation."""

    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWithOptions(Task):
    """A task of a Mita backend. `mita` are options for its jobs, as `task.options(…)` takes them:
    `@task(mita={"timeout": 30, "retry": Retry(max_retries=5)})`, which Django 6.0 does not take;
    `send.using(mita={"unique": "daily"})` works with both."""

    mita: Mapping[str, Any] | None = field(default=None, compare=False)

    def using(self, *, mita: Mapping[str, Any] | None = None, **changes: Any) -> Any:
        """Return a copy with other defaults: those of Django, and the options in `mita`."""
        changed = Task.using(self, **changes)
        return changed if mita is None else replace(changed, mita={**(self.mita or {}), **mita})
