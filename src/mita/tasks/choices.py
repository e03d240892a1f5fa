"""The options of tasks and jobs, as callers give them by name."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict

from mita.model.job import WhenBusy
from mita.model.limits import Key, Rate
from mita.model.policy import Retry


class Choices(TypedDict, total=False):
    """The options that `task.options(…)` takes, for one job, and `@app.task(…)` for all jobs of a
    task. Delays are seconds or a timedelta. A key may be a template that is filled from the
    arguments, as in `"account:{account}"`."""

    queue: str
    """The queue of the job; `default` unless given."""
    priority: int
    """From -100 to 100, 5 unless given; higher goes first."""
    retry: Retry
    """How often a failed run is retried, and after which delays."""
    timeout: float | timedelta | None
    """How long one run may take. None: as long as it wants."""
    resource: str | Key | Sequence[str | Key] | None
    """The key or keys of which at most `limit` jobs run at once."""
    limit: int
    """How many jobs with one `resource` key run at once; 1 unless given."""
    when_busy: WhenBusy | Literal["wait", "skip", "replace"]
    """If its key is taken, the job waits, is skipped, or waits and replaces those that waited."""
    rate: Rate | None
    """How often a job may start, over all workers."""
    fair: str | None
    """The group of the job, for example its tenant: groups take turns."""
    fair_weight: float
    """The share of the group, beside others with 1."""
    unique: str | None
    """While a job with this key has not ended, another enqueue returns that job."""
    unique_for: float | timedelta
    """How long the `unique` key outlives its job."""
    throttle: float | timedelta | None
    """At most one job per key in this time; further calls return that job."""
    debounce: float | timedelta | None
    """A later call within this time replaces the arguments and starts the wait again."""
    debounce_max: float | timedelta | None
    """The longest time that a debounced job waits."""
    expires: float | timedelta | None
    """The job is cancelled if it has not started so long after its due time."""
    deadline: float | timedelta | None
    """All runs must be over so long after the first due time, or the job fails."""
    max_reschedules: int | None
    """How often a handler may move its job. None: as often as it wants."""
    tags: Sequence[str] | None
    """Words to find the job by."""
    metadata: Mapping[str, Any] | None
    """Plain values that are carried along: `job.metadata` has them."""
    id: str | None
    """The id of the job, chosen by the caller."""


class TaskChoices(Choices, total=False):
    """The options that `@app.task(…)` takes: those of `JobOptions`, and these."""

    name: str
    """The name of the task; that of the function unless given."""
    aliases: Sequence[str]
    """Other names under which its jobs may be stored, for a task that was renamed or moved."""
    executor: Literal["thread", "process"]
    """Where a sync function runs: on a thread of the worker, or in a process that can be killed."""
    final: Sequence[type[BaseException]] | type[BaseException]
    """Errors that are not retried."""
    secret: bool | Sequence[str]
    """Arguments, results and error texts are never shown; or the names of such arguments."""
