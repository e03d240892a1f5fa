"""What an app does with jobs: enqueue, reschedule, cancel, retry, delete, pause, hold, repeat."""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack

from mita.events import ClientEvents
from mita.events.signals import Amended
from mita.flows.acts import amend_jobs, concerns_flows
from mita.flows.ended import is_step
from mita.flows.retries import check_predecessors, dead_step
from mita.model.job import Job
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
from mita.model.record import FlowPage, RepeatRecord
from mita.ports.clock import wall_clock
from mita.rules.judge import Retention
from mita.rules.priority import check_priority
from mita.rules.text import note
from mita.rules.when import when, when_or_now
from mita.tasks import Call, Handle, Task
from mita.twins import RunSync, sync_twin

from .acting import audited, of_job
from .audit import Auditing
from .bulk import Bulk
from .bulk_runs import BulkRuns, bulk_task
from .bulk_work import BulkTools
from .calls import check_calls, signal_job, unknown_job
from .enqueue import JobSender, TransactionalSender
from .flow_records import page_of_flows
from .flow_run import FlowRun, FlowTools
from .flows import Flow, GroupFlow, Link, chain, group
from .history import RunHistory
from .inspect import Inspection
from .queue_control import QueueControl
from .repeat_spec import RepeatChoices
from .repeats import Repeats
from .rewrite import rewrite_job

log = logging.getLogger("mita.client")

R = TypeVar("R")


class Client(Inspection, RunHistory, Bulk, BulkRuns, QueueControl, Auditing):
    """The methods of an app that need a store.

    A method that asks something of a job returns an `Answer`: `done`; `asked` (the job is running:
    it takes effect when the run ends); `too late` (the job's state does not allow it any more);
    `taken` (a retry would make two jobs with one unique key). An id that is not in the store raises
    `UsageError`."""

    def __init__(
        self,
        sender: JobSender,
        tasks: Mapping[str, Task[Any, Any]],
        keep: Retention,
        run_sync: RunSync,
        events: ClientEvents,
    ) -> None:
        self._sender = sender
        self._store = sender.store
        self._tasks = tasks
        self._keep = keep
        self._run_sync = run_sync
        self._reports = events
        self._outbox = sender.outbox
        self._recorder = sender.recorder
        self._flow_tools = FlowTools(
            sender.store, self, tasks, keep, events, sender.recorder, self._outbox is not None
        )
        self._bulk_task = bulk_task(sender.store, sender, BulkTools(tasks, keep, self._amend_part))
        self.repeats = Repeats(sender.store, tasks, self, events, run_sync, sender.recorder)

    # ------------------------------------------------------------ enqueue

    async def enqueue(self, call: Call[R]) -> Handle[R]:
        """Enqueue one job and return its handle. `call` was made with `task.call(…)`;
        `task.enqueue(…)` does both. Raises `UsageError` if its task is not one of this app, and
        `Rejected` if the store does not take it."""
        return (await self.enqueue_many([call]))[0]

    def enqueue_sync(self, call: Call[R]) -> Handle[R]:
        """`enqueue`, from code that is not async."""
        return self.enqueue_many_sync([call])[0]

    async def enqueue_many(self, calls: Iterable[Call[R]]) -> list[Handle[R]]:
        """Enqueue many jobs, 1,000 at a time and in their order, and return their handles. `calls`
        were made with `task.call(…)`. All of them are checked before the first is stored:
        `UsageError` if one is wrong. If the store fails in the middle (`StoreError`), the rest is
        not sent."""
        return await self._sender.send(check_calls(calls, self._tasks))

    def enqueue_many_sync(self, calls: Iterable[Call[R]]) -> list[Handle[R]]:
        """`enqueue_many`, from code that is not async."""
        return self._sender.send_sync(check_calls(calls, self._tasks))

    def within(self, connection: Any) -> TransactionalSender:
        """Return a sender that enqueues in the transaction that is open on `connection`."""
        return self._sender.within(connection)

    # ------------------------------------------------------------ flows

    def flow(self, name: str) -> Flow:
        """Begin a flow: jobs that depend on jobs. `name` is for people. Nothing is stored before
        `flow.enqueue()`."""
        return Flow(name, self._tasks, self._flow_tools, self._run_sync)

    def chain(self, *links: Link, name: str = "chain") -> Flow:
        """Return a flow of steps one after the other. `links` are calls, `task.call(…)`, or
        `task.call` without parentheses: then the result of the step before it is its argument.
        `name` is for people. Raises `UsageError` if there is no link, or if the first has no
        arguments."""
        return chain(self.flow(name), links)

    def group(self, calls: Iterable[Call[Any]], *, name: str = "group") -> GroupFlow:
        """Return a flow of steps side by side, one for each of `calls`. `.then(task.call)` adds a
        step that gets the list of their results. `name` is for people. Raises `UsageError` if there
        are no calls."""
        return group(GroupFlow(name, self._tasks, self._flow_tools, self._run_sync), calls)

    async def flows(self, *, after: str | None = None, limit: int = 50) -> FlowPage:
        """Return a page of at most `limit` flows, newest first. `after` is the `after` of the page
        before; None for the first page."""
        return await page_of_flows(await self._store(), after, limit)

    flows_sync = sync_twin(flows)

    def flow_run(self, id: str) -> FlowRun:
        """Return the flow with this `id`, which was enqueued before, for example by another
        program. It is not looked up: `await run.get()` is None if there is none."""
        return FlowRun(id, self._flow_tools, self._run_sync)

    # ------------------------------------------------------------ ask something of a job

    @audited(of_job)
    async def reschedule(
        self,
        id: str,
        *,
        at: datetime | None = None,
        after: float | timedelta | None = None,
        reason: str = "",
    ) -> Answer:
        """Run a job `at` another time, an aware datetime, or `after` seconds (or a timedelta) from
        now. It keeps its `id`, priority and counters. A failed or cancelled job is retried at that
        time, with its counters at zero. The `reason` (who wants it, and why) is stored in its
        timeline. Raises `UsageError` if the store has no such job, and unless exactly one of `at`
        and `after` is given."""
        return await self._amend(
            id, RescheduleJob(when(at=at, after=after), note(reason) or OUTSIDE)
        )

    reschedule_sync = sync_twin(reschedule)

    @audited(of_job)
    async def cancel(self, id: str, reason: str = "") -> Answer:
        """Cancel the job with this `id`. A running job is asked to stop, and ends as cancelled. The
        id of a flow cancels all of its steps that have not ended; the flow ends with them. The
        `reason` is stored in its timeline. Raises `UsageError` if the store has no such job."""
        return await self._amend(id, CancelJob(self._keep.failed, note(reason)))

    cancel_sync = sync_twin(cancel)

    @audited(of_job)
    async def retry(
        self,
        id: str,
        *,
        at: datetime | None = None,
        after: float | timedelta | None = None,
        reason: str = "",
    ) -> Answer:
        """Run the failed or cancelled job with this `id` again, with its counters at zero: now,
        `at` a time, or `after` seconds (or a timedelta). A step of a flow brings the steps back
        that were cancelled because of it. The id of a flow runs its failed and cancelled steps
        again. The `reason` is stored in its timeline. Raises `UsageError` if the store has no such
        job."""
        return await self._amend(id, RetryJob(when_or_now(at=at, after=after), note(reason)))

    retry_sync = sync_twin(retry)

    @audited(of_job)
    async def signal(self, id: str, name: str, value: Any = None) -> Answer:
        """Give the job with this `id` the `value` that its handler waits for with
        `job.wait_for(name)`. If the handler does not wait yet, the value is kept for it.
        `taken`: this `name` was signalled before, or the wait for it has timed out. `too late`:
        the job has ended. Raises `UsageError` if the store has no such job, or if the value
        cannot be stored."""
        return await self._amend(id, signal_job(name, value))

    signal_sync = sync_twin(signal)

    @audited(of_job)
    async def delete(self, id: str) -> Answer:
        """Delete the job with this `id`, which must have ended, with its result, timeline and
        unique key. `too late`: it has not ended. Raises `UsageError` if the store has no such
        job."""
        return await self._amend(id, DeleteJob())

    delete_sync = sync_twin(delete)

    @audited(of_job)
    async def prioritise(self, id: str, priority: int) -> Answer:
        """Give the job with this `id` another `priority`, from -100 to 100; higher goes first.
        Raises `UsageError` for another number, and if the store has no such job."""
        return await self._amend(id, PrioritiseJob(check_priority(priority)))

    prioritise_sync = sync_twin(prioritise)

    @audited(of_job)
    async def amend(self, id: str, *, arguments: Mapping[str, Any], reason: str = "") -> Answer:
        """Give the job with this `id` other `arguments`: a dict of the ones to change, by name. The
        others stay. All are checked against the annotations of the task before anything is stored.
        Failed jobs stay failed until `retry`. Keys that were made from the old arguments stay as
        they are: resource, unique and fair keys, rates and tags. The `reason` is stored in its
        timeline, with the names of the arguments.

        `too late`: the job runs or has succeeded. Raises `UsageError` if the store has no such job,
        if this app does not have its task, or if the arguments do not fit."""
        store = await self._store()
        [job] = await store.find([id])
        if job is None:
            raise unknown_job(id)
        change = rewrite_job(job, self._tasks, arguments, note(reason), store.room)
        return await self._amend(id, change)

    amend_sync = sync_twin(amend)

    async def _amend(self, id: str, change: Change) -> Answer:
        """Change a job. It is read first if more may follow in its flow."""
        store = await self._store()
        job: Job | None = None
        if is_step(id) or isinstance(change, CancelJob | RetryJob):
            [job] = await store.find([id])
        if job is not None and concerns_flows(job, change):
            if isinstance(change, RetryJob | RescheduleJob) and (step := dead_step(job)):
                await check_predecessors(store, step)
            acts = await amend_jobs(store, [job], change, self._keep.failed)
            [answer], followed = acts.answers, acts.followed
        else:
            [answer], followed = await store.amend([id], change), []
        if answer is Answer.UNKNOWN:
            raise unknown_job(id)
        for one in (Amended(id, change, answer, wall_clock()), *followed):
            await self._reports.amended(store, one)
        return answer

    # ------------------------------------------------------------ repeats

    async def repeat(
        self, key: str | None, call: Call[Any], pattern: Pattern, **choices: Unpack[RepeatChoices]
    ) -> RepeatRecord:
        """Enqueue this `call` again and again, as `pattern` says (`Every` or `Cron`): create or
        edit the repeat with this `key` (None: a key is made from task and pattern). The `choices`
        are those of `RepeatOptions`. Raises `UsageError` if they contradict each other."""
        return await self.repeats.put(key, call, pattern, **choices)

    repeat_sync = sync_twin(repeat)
