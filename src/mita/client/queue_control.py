"""What an operator asks of queues and resource keys: pause, resume, hold, limit."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from mita.errors import UsageError
from mita.model.limits import Rate, stored_limit
from mita.model.time import NOW
from mita.ports.store import Store
from mita.rules.names import check_key, check_name
from mita.rules.own_tasks import BULK_QUEUE
from mita.rules.when import when
from mita.tasks import Task
from mita.twins import RunSync, sync_twin

from .acting import AuditRecorder, audited, of_key, of_queues

log = logging.getLogger("mita.client")


class QueueControl:
    """The methods of an app that change queues and resource keys."""

    _store: Callable[[], Awaitable[Store]]
    _tasks: Mapping[str, Task[Any, Any]]
    _run_sync: RunSync
    _recorder: AuditRecorder

    @audited(of_queues)
    async def pause(self, *queues: str) -> None:
        """Start no more jobs of these `queues`. Running jobs continue. Raises `UsageError` if none
        is named."""
        await (await self._store()).pause(_names(queues))

    pause_sync = sync_twin(pause)

    @audited(of_queues)
    async def resume(self, *queues: str) -> None:
        """Start jobs of these `queues` again. Raises `UsageError` if none is named."""
        await (await self._store()).resume(_names(queues))

    resume_sync = sync_twin(resume)

    @audited(of_key)
    async def hold(
        self,
        key: str,
        *,
        until: datetime | None = None,
        after: float | timedelta | None = None,
        queue: str | None = None,
    ) -> None:
        """Start no jobs with this resource `key` before `until` (an aware datetime), or for `after`
        seconds (or a timedelta): in one `queue`, or in all queues. Raises `UsageError` unless
        exactly one of `until` and `after` is given."""
        moment = when(at=until, after=after, named="until")
        store = await self._store()
        await store.hold(await self._queues(store, queue), check_key("resource", key), moment)

    hold_sync = sync_twin(hold)

    @audited(of_key)
    async def unhold(self, key: str, *, queue: str | None = None) -> None:
        """End a hold: jobs with this resource `key` may start again, in one `queue` or in all
        queues."""
        store = await self._store()
        await store.hold(await self._queues(store, queue), check_key("resource", key), NOW)

    unhold_sync = sync_twin(unhold)

    @audited(of_queues, "limit")
    async def limit_queue(
        self, queue: str, *, concurrency: int | None = None, rate: Rate | None = None
    ) -> None:
        """Limit how many jobs of this `queue` run at once (`concurrency`), and how often one starts
        (`rate`), over all workers. It replaces the queue's earlier limit, and holds for every start
        after this returns. `concurrency=0` starts no jobs. Without both, the limit is removed. The
        limit of a queue that is not known yet is stored, with a warning in the log. Raises
        `UsageError` for a limit that makes no sense."""
        limit, store = stored_limit(concurrency, rate), await self._store()
        known = await self._queues(store, None)
        await store.limit([check_name("queue", queue)], None, limit)
        if limit is not None and queue not in known:
            text = "the limit of queue %r is stored, but it has had no job so far; there are: %s"
            log.warning(text, queue, ", ".join(known) or "none yet")

    limit_queue_sync = sync_twin(limit_queue)

    @audited(of_key, "limit")
    async def limit_key(
        self,
        key: str,
        *,
        concurrency: int | None = None,
        rate: Rate | None = None,
        queue: str | None = None,
    ) -> None:
        """Limit the jobs with this resource `key`, in one `queue` or in each queue: `concurrency`
        and `rate` replace what their task says about the key. `concurrency=0` starts no jobs.
        Without both, the limit is removed. "Each queue" is each one that ever had a job or belongs
        to a task of this app: for a queue that comes later, call it again. Raises `UsageError` for
        a limit that makes no sense."""
        limit, store = stored_limit(concurrency, rate), await self._store()
        await store.limit(await self._queues(store, queue), check_key("resource", key), limit)

    limit_key_sync = sync_twin(limit_key)

    async def _queues(self, store: Store, queue: str | None) -> list[str]:
        """The named queue; else all queues that ever had a job, and the queues of this app's
        tasks."""
        if queue is not None:
            return [check_name("queue", queue)]
        known = {*await store.queue_names(), *(task.queue for task in self._tasks.values())}
        return sorted(known - {BULK_QUEUE})  # bulk runs have no keys


def _names(queues: tuple[str, ...]) -> list[str]:
    if not queues:
        raise UsageError("name at least one queue, for example app.pause('mail')")
    return [check_name("queue", queue) for queue in queues]
