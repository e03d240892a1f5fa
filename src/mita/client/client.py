"""Everything that is done with jobs from outside: enqueue, wait, look, move, cancel, pause,
explain."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack

from mita.errors import UsageError
from mita.events import ClientEvents, EventBus
from mita.events.signals import Amended, Enqueued
from mita.model.job import PRIORITIES, NewJob
from mita.model.outcome import (
    OUTSIDE,
    Answer,
    CancelJob,
    Change,
    DeleteJob,
    PrioritiseJob,
    RescheduleJob,
    RetryJob,
)
from mita.model.pattern import Pattern
from mita.model.record import DisplayState, JobPage, JobRecord, RepeatRecord
from mita.model.time import NOW
from mita.model.view import QueueView, ResourceView, WorkerView
from mita.ports.ahead import one_ahead
from mita.ports.clock import wall_clock
from mita.ports.store import Store
from mita.rules.explain.reasons.evidence import Reason
from mita.rules.explain.reasons.reasons import explain
from mita.rules.judge import Retention
from mita.rules.names import check_key, check_name
from mita.rules.text import note
from mita.rules.when import when, when_or_now
from mita.sync import check_may_wait
from mita.tasks import Call, Handle, Task
from mita.traces import sending, tracer
from mita.twins import RunSync, sync_twin

from .bulk import Bulk
from .enqueue import check_calls, fit_together, in_parts, new_jobs, unknown_job
from .explain import gather
from .filters import cursor, job_filter, page_size
from .record import job_record, result
from .repeat_spec import RepeatChoices
from .repeats import Repeats
from .transaction import TransactionalSender
from .waiting import succeeded

R = TypeVar("R")


class Client(Bulk):
    """The store's customer. `open_store` gives the store of the running event loop.

    What is asked of a job is answered with an `Answer`: `done`; `asked` (it runs: it takes effect
    when the run ends); `too late` (its state does not allow it any more); `taken` (reviving it
    would make two jobs with one unique key). An id that is not in the store is a `UsageError`."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        tasks: Mapping[str, Task[Any, Any]],
        keep: Retention,
        run_sync: RunSync,
        watch: EventBus,
    ) -> None:
        self._store = open_store
        self._tasks = tasks
        self._keep = keep
        self._run_sync = run_sync
        self._reports = ClientEvents(watch)
        self.repeats = Repeats(open_store, tasks, self, self._reports, run_sync)

    # ------------------------------------------------------------ enqueue

    async def enqueue(self, call: Call[R]) -> Handle[R]:
        """Put one job into the store; the same as `task.enqueue(…)`, for a call that was made
        before."""
        return (await self.enqueue_many([call]))[0]

    def enqueue_sync(self, call: Call[R]) -> Handle[R]:
        """`enqueue`, from code that is not async."""
        return self.enqueue_many_sync([call])[0]

    async def enqueue_many(self, calls: Iterable[Call[R]]) -> list[Handle[R]]:
        """Put many jobs into the store, 1,000 at a time and in their order. All are checked before
        the first is stored; if the store fails in the middle, nothing is sent after those that
        failed."""
        return await self.send(check_calls(calls, self._tasks))

    def enqueue_many_sync(self, calls: Iterable[Call[R]]) -> list[Handle[R]]:
        """`enqueue_many`, from code that is not async."""
        return self.send_sync(check_calls(calls, self._tasks))

    def send(self, calls: Sequence[Call[Any]]) -> Coroutine[Any, Any, list[Handle[Any]]]:
        """Calls of this app's own tasks, 1,000 at a time."""
        return self._send(calls, b"") if tracer() is None else self._send_traced(calls)

    async def _send_traced(self, calls: Sequence[Call[Any]]) -> list[Handle[Any]]:
        with sending(calls) as trace:
            handles = await self._send(calls, trace.headers)
            trace.sent(handles)
            return handles

    def send_sync(self, calls: Sequence[Call[Any]]) -> list[Handle[Any]]:
        """`send`, from code that is not async."""
        # here, for the loop's own thread knows nothing of the caller's trace
        with sending(calls) as trace:
            handles = self._run_sync(self._send(calls, trace.headers))
            trace.sent(handles)
            return handles

    def _send(
        self, calls: Sequence[Call[Any]], headers: bytes
    ) -> Coroutine[Any, Any, list[Handle[Any]]]:
        if fit_together(calls):
            return self._take_in(new_jobs(calls, headers))
        return one_ahead(in_parts(calls, headers), self._take_in)

    async def _take_in(self, jobs: list[NewJob]) -> list[Handle[Any]]:
        store = await self._store()
        receipts = await store.enqueue(jobs)
        self._reports.emit(store, Enqueued(jobs, receipts, wall_clock()))
        return [Handle(receipt.id, receipt.created, self) for receipt in receipts]

    def within(self, connection: Any) -> TransactionalSender:
        """What `task.using(connection)` sends with."""
        return TransactionalSender(
            connection,
            self._store,
            lambda: self._run_sync(self._opened()),
            self,
            self._reports.emit_here,
        )

    async def _opened(self) -> Store:
        return await self._store()

    # ------------------------------------------------------------ look

    async def get(self, id: str) -> JobRecord | None:
        """The job as it stands now, with its timeline; None when the store does not have it (any
        more)."""
        store = await self._store()
        [job] = await store.find([id])
        return (
            None
            if job is None
            else job_record(job, await store.timeline(id), await store.now(), self._tasks)
        )

    get_sync = sync_twin(get)

    async def result(self, id: str, timeout: float | None = None) -> Any:
        """Wait for a job to end; see `Handle.result`."""
        return result(await succeeded(self._store, id, timeout), self._tasks)

    def result_sync(self, id: str, timeout: float | None = None) -> Any:
        """`result`, from code that is not async. Refused in an async handler: it would block its
        worker."""
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
        after: str | None = None,
        limit: int = 100,
    ) -> JobPage:
        """A page of jobs, newest first. `error` is part of an error's type and message; `after` is
        the last page's."""
        want = job_filter(
            state,
            queue=queue,
            task=task,
            resource=resource,
            unique=unique,
            repeat=repeat,
            error=error,
        )
        store = await self._store()
        page = await store.page(want, cursor(after), page_size(limit))
        now = await store.now()
        return JobPage(
            tuple(job_record(job, (), now, self._tasks) for job in page.jobs), page.after
        )

    jobs_sync = sync_twin(jobs)

    async def counts(self) -> dict[str, dict[str, int]]:
        """How many jobs stand where, by queue and state."""
        views = await (await self._store()).queues()
        return {
            view.name: {state.value: getattr(view, state) for state in DisplayState}
            for view in views
        }

    counts_sync = sync_twin(counts)

    async def queues(self) -> list[QueueView]:
        """Counts, age of the oldest ready job, and pauses."""
        return await (await self._store()).queues()

    queues_sync = sync_twin(queues)

    async def workers(self) -> list[WorkerView]:
        """The workers that are alive, as each last described itself."""
        return await (await self._store()).workers()

    workers_sync = sync_twin(workers)

    async def resources(
        self, *, queue: str | None = None, key: str | None = None
    ) -> list[ResourceView]:
        """The resource keys that are held, waited for or on hold: of one queue or of all, one key
        or all."""
        if queue is not None:
            check_name("queue", queue)
        if key is not None:
            check_key("resource", key)
        return await (await self._store()).resources(queue, key)

    resources_sync = sync_twin(resources)

    async def explain(self, id: str) -> list[Reason]:
        """Why the job is not running: reasons in words, the weightiest first, with what to do about
        each."""
        return explain(await gather(await self._store(), id))

    explain_sync = sync_twin(explain)

    # ------------------------------------------------------------ ask something of a job

    async def reschedule(
        self,
        id: str,
        *,
        at: datetime | None = None,
        after: float | timedelta | None = None,
        reason: str = "",
    ) -> Answer:
        """Run it at another time. It keeps its id, priority and counters; one that failed or was
        cancelled comes back for that time with its counters at zero. The `reason` (who wants it,
        and why) is kept in its timeline."""
        return await self._amend(
            id, RescheduleJob(when(at=at, after=after), note(reason) or OUTSIDE)
        )

    reschedule_sync = sync_twin(reschedule)

    async def cancel(self, id: str, reason: str = "") -> Answer:
        """Do not run it any more; one that runs is told."""
        return await self._amend(id, CancelJob(self._keep.failed, note(reason)))

    cancel_sync = sync_twin(cancel)

    async def retry(
        self,
        id: str,
        *,
        at: datetime | None = None,
        after: float | timedelta | None = None,
        reason: str = "",
    ) -> Answer:
        """Run a failed or cancelled job again, with its counters at zero: now, or at the given
        time."""
        return await self._amend(id, RetryJob(when_or_now(at=at, after=after), note(reason)))

    retry_sync = sync_twin(retry)

    async def delete(self, id: str) -> Answer:
        """Forget a job that has ended, with its result, timeline and unique key, before its time is
        over."""
        return await self._amend(id, DeleteJob())

    delete_sync = sync_twin(delete)

    async def prioritise(self, id: str, priority: int) -> Answer:
        """Another priority from now on."""
        if isinstance(priority, bool) or priority not in PRIORITIES:
            raise UsageError(
                f"priority={priority!r}: give a whole number from 0 to {PRIORITIES[-1]}; higher "
                "goes first"
            )
        return await self._amend(id, PrioritiseJob(priority))

    prioritise_sync = sync_twin(prioritise)

    async def _amend(self, id: str, change: Change) -> Answer:
        store = await self._store()
        [answer] = await store.amend([id], change)
        if answer is Answer.UNKNOWN:
            raise unknown_job(id)
        await self._reports.amended(store, Amended(id, change, answer, wall_clock()))
        return answer

    # ------------------------------------------------------------ ask something of queues and keys

    async def pause(self, *queues: str) -> None:
        """Start nothing more of these queues; what runs goes on."""
        await (await self._store()).pause(_names(queues))

    pause_sync = sync_twin(pause)

    async def resume(self, *queues: str) -> None:
        """Start jobs of these queues again."""
        await (await self._store()).resume(_names(queues))

    resume_sync = sync_twin(resume)

    async def hold(
        self,
        key: str,
        *,
        until: datetime | None = None,
        after: float | timedelta | None = None,
        queue: str | None = None,
    ) -> None:
        """Start nothing with this resource key before then, in one queue or in all there are."""
        moment = when(at=until, after=after, named="until")
        store = await self._store()
        await store.hold(await self._queues(store, queue), check_key("resource", key), moment)

    hold_sync = sync_twin(hold)

    async def unhold(self, key: str, *, queue: str | None = None) -> None:
        """End a hold: jobs with this resource key may start again."""
        store = await self._store()
        await store.hold(await self._queues(store, queue), check_key("resource", key), NOW)

    unhold_sync = sync_twin(unhold)

    async def _queues(self, store: Store, queue: str | None) -> list[str]:
        """The one that was named; else all that ever had a job, and those of this app's tasks that
        will."""
        if queue is not None:
            return [check_name("queue", queue)]
        return sorted({*await store.queue_names(), *(task.queue for task in self._tasks.values())})

    # ------------------------------------------------------------ repeats

    async def repeat(
        self, key: str | None, call: Call[Any], pattern: Pattern, **choices: Unpack[RepeatChoices]
    ) -> RepeatRecord:
        """Make this job again and again: insert or edit the repeat of this key (None: one made of
        task and pattern)."""
        return await self.repeats.put(key, call, pattern, **choices)

    repeat_sync = sync_twin(repeat)


def _names(queues: tuple[str, ...]) -> list[str]:
    if not queues:
        raise UsageError("name at least one queue, for example app.pause('mail')")
    return [check_name("queue", queue) for queue in queues]
