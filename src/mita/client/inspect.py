"""Reading: jobs, queues, workers and resource keys as they are now."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mita.errors import UsageError
from mita.model.dead_group import DeadGroup
from mita.model.record import DisplayState, JobPage, JobRecord
from mita.model.time import LATEST
from mita.model.view import QueueView, ResourceView, WorkerView
from mita.ports.outbox import JobOutbox
from mita.ports.store import Store
from mita.rules.explain.evidence import Reason
from mita.rules.explain.outbox import explain_row
from mita.rules.explain.reasons import explain
from mita.rules.names import check_key, check_name
from mita.sync import check_may_wait
from mita.tasks import Task
from mita.twins import RunSync, sync_twin

from .dead_groups import read_dead_groups
from .durable import values_of, with_durable
from .explain import gather
from .filters import cursor, job_filter, page_size
from .record import job_record, result
from .waiting import succeeded


class Inspection:
    """The methods of an app that read and change nothing."""

    _store: Callable[[], Awaitable[Store]]
    _tasks: Mapping[str, Task[Any, Any]]
    _run_sync: RunSync
    _outbox: JobOutbox | None

    async def get(self, id: str) -> JobRecord | None:
        """Return the job with this `id`, with its timeline, steps and signals; None if the store
        does not have it (any more)."""
        store = await self._store()
        [job] = await store.find([id])
        if job is None:
            return None
        events, now, values = await asyncio.gather(
            store.timeline(id), store.now(), values_of(store, id)
        )
        return with_durable(job_record(job, events, now, self._tasks), values)

    get_sync = sync_twin(get)

    async def result(self, id: str, timeout: float | None = None) -> Any:
        """Wait until the job with this `id` has ended and return its result. Raises `JobFailed`,
        `JobCancelled`, or `TimeoutError` after `timeout` seconds (None: wait for ever), and
        `MitaError` if the store has no such job."""
        return result(await succeeded(self._store, id, timeout, self._outbox), self._tasks)

    def result_sync(self, id: str, timeout: float | None = None) -> Any:
        """`result`, from code that is not async. Raises `UsageError` in an async handler, because
        it would block its worker."""
        check_may_wait("result_sync", "`await job.result()`")
        return self._run_sync(self.result(id, timeout))

    async def jobs(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        state: DisplayState | str | None = None,
        resource: str | None = None,
        unique: str | None = None,
        repeat: str | None = None,
        error: str | None = None,
        tag: str | None = None,
        group: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> JobPage:
        """Return a page of at most `limit` jobs, newest first: by their ids, which begin with the
        time unless the caller chose them. `after` is the `after` of the page before.

        Each filter that is given must hold: `queue` and `task` are names, `state` is one of
        `DisplayState`, `resource` and `unique` are keys, `repeat` is the key of the repeat that
        made the job, `error` is a part of the error's type and message, `tag` is one of the job's
        tags, and `group` is the group of a failed job (`dead_groups`). Raises `UsageError` for a
        state that does not exist."""
        want = job_filter(
            state,
            queue=queue,
            task=task,
            resource=resource,
            unique=unique,
            repeat=repeat,
            error=error,
            tag=tag,
            group=group,
        )
        store = await self._store()
        page = await store.page(want, cursor(after), page_size(limit))
        now = await store.now()
        return JobPage(
            tuple(job_record(job, (), now, self._tasks) for job in page.jobs), page.after
        )

    jobs_sync = sync_twin(jobs)

    async def dead_groups(
        self, *, queue: str | None = None, task: str | None = None, limit: int = 100
    ) -> tuple[DeadGroup, ...]:
        """Return up to `limit` groups of failed jobs, those with the most jobs first: of one
        `queue` or of all, of one `task` or of all. The filter `group=` of `jobs` and of the bulk
        operations chooses the jobs of one group."""
        if queue is not None:
            check_name("queue", queue)
        if task is not None:
            check_name("task", task)
        return await read_dead_groups(
            await self._store(), queue, task, page_size(limit), self._tasks
        )

    dead_groups_sync = sync_twin(dead_groups)

    async def counts(self) -> dict[str, dict[str, int]]:
        """Return the number of jobs by queue and state."""
        views = await (await self._store()).queues()
        return {
            view.name: {state.value: getattr(view, state) for state in DisplayState}
            for view in views
        }

    counts_sync = sync_twin(counts)

    async def queues(self) -> list[QueueView]:
        """Return all queues with their counts, the age of their oldest ready job, and whether they
        are paused."""
        return await (await self._store()).queues()

    queues_sync = sync_twin(queues)

    async def workers(self) -> list[WorkerView]:
        """Return the workers that are alive, as each last described itself."""
        return await (await self._store()).workers()

    workers_sync = sync_twin(workers)

    async def resources(
        self, *, queue: str | None = None, key: str | None = None
    ) -> list[ResourceView]:
        """Return the resource keys that are held, waited for or on hold: of one `queue` or of all,
        one `key` or all."""
        if queue is not None:
            check_name("queue", queue)
        if key is not None:
            check_key("resource", key)
        return await (await self._store()).resources(queue, key)

    resources_sync = sync_twin(resources)

    async def explain(self, id: str) -> list[Reason]:
        """Return why the job with this `id` is not running: reasons in words, most important first,
        each with what to do about it. Raises `UsageError` if the store has no such job."""
        outbox = self._outbox
        try:
            evidence = await gather(await self._store(), id)
        except UsageError:
            row = None if outbox is None else await outbox.row(id)
            if row is None:
                raise
            return explain_row(row)
        if outbox is not None and evidence.job.due == LATEST and (row := await outbox.row(id)):
            return explain_row(row)
        return explain(evidence)

    explain_sync = sync_twin(explain)
