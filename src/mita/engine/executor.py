"""Runs jobs: gives slots to claimed jobs, and turns the ending of each run into a settlement.

The way of a job: `start` takes its claim, `_start_waiting` gives it a slot and starts its handler,
`_task_done` or `_thread_done` gets its ending, and `_finish` adds its settlement to `ended`, where
the claim loop finds it."""

import logging
import random
import sys
import time

from msgspec.structs import replace

from mita.events.signals import RunsStarted
from mita.flows.ended import is_step, place_of
from mita.flows.runs import with_added
from mita.model.ending import Ending, Interrupted, Unknown
from mita.model.job import Claim, State
from mita.model.outcome import Settlement, Start
from mita.rules.claim_size import Load
from mita.rules.expiry import refusal, seconds_left
from mita.rules.flow import FLOW_TASKS, LONGEST_PLAIN_ID_CHARACTERS
from mita.rules.judge import RELEASE, judge
from mita.rules.options import PLAIN_OPTIONS, may_come_too_late, options_of
from mita.rules.own_tasks import BULK_TASK
from mita.traces import TRACING, span_id, tracer

from .context import WorkerContext
from .execution import Execution
from .flow_runs import FlowRuns
from .full_pools import with_free_slot
from .held_runs import HeldRuns
from .job_log import log_overrun, log_success, log_verdict
from .processes import Processes, ProcessPlan
from .run import run_async
from .run_context import RunContext, Stop
from .started_runs import StartedRuns
from .task_warnings import TaskWarnings
from .thread_pool import ThreadPool

log = logging.getLogger("mita.worker")


class Executor(HeldRuns):
    """Runs the jobs of one worker. `changed` is set when the first settlement arrives in `ended`,
    and when a slot is free again without one."""

    def __init__(self, context: WorkerContext, processes: ProcessPlan | None) -> None:
        settings = context.settings
        super().__init__(context.retention, ThreadPool(settings.threads, self._thread_done))
        self._context, self._tasks = context, context.tasks
        self._success_ending: Ending | None = None  # the latest one, and its verdict
        self._success = RELEASE  # replaced by the first success
        self._runs = RunContext(
            context.store,
            context.retention,
            context.lease,
            context.tasks,
            context.emit,
            context.shared,
        )
        self._runs.worker = context.id
        self._slots = settings.concurrency
        self._thread_slots = settings.threads if "thread" in self.executors() else 0
        self._processes = Processes(processes, context.retention, context.store.room)
        self.flows = FlowRuns(context, self._start_prepared, self._finish, self._settle_soon)
        self._running = 0  # slots in use
        self._is_start_scheduled = False  # `_start_waiting` is called soon
        self._starts = StartedRuns()
        self._warnings = TaskWarnings()
        self._success_level = logging.INFO if settings.verbose else logging.DEBUG
        self._logs_successes = log.isEnabledFor(self._success_level)
        self.finished = 0
        self.started = 0

    # ------------------------------------------------------------ starting runs

    def load(self, rate: float) -> Load:
        """Returns how busy this worker is. `rate` is finished runs per second."""
        processes = self._processes
        pools = self._thread_slots, self._threads.busy, processes.size, processes.busy
        return Load(self._slots, self._running, len(self.waiting), rate, *pools)

    def executors(self) -> set[str]:
        """Returns what the tasks of the user run on: `loop`, `thread`, `process`."""
        return {task.executor for name, task in self._tasks.items() if name != BULK_TASK}

    def start(self, claims: list[Claim], deadline: float, *, beside: bool = False) -> int:
        """Run these jobs as slots become free. `deadline` is when their leases end on this
        machine's monotonic clock. `beside`: they were claimed while a pool was full, so jobs that
        need that pool go back to the queue untouched. Returns how many did."""
        now, taken = time.monotonic(), claims
        if beside:
            taken, others = with_free_slot(claims, self._tasks, self.load(0.0))
            for claim in others:
                self._settle_unstarted(claim, Interrupted(started=False))
        if TRACING in sys.modules:
            self._runs.tracer = tracer()
        fresh = []
        for claim in taken:
            task = self._tasks.get(claim.task)
            if task is None:
                self._run_own_or_leave(claim, deadline)
            elif len(claim.id) > LONGEST_PLAIN_ID_CHARACTERS and (place := place_of(claim)):
                execution = Execution(claim, task, self._runs, deadline, now)
                if self.flows.is_ready(execution, place):
                    fresh.append(execution)
                    continue
                self.held.add(execution)
                self.flows.prepare(execution, place)
            else:
                fresh.append(Execution(claim, task, self._runs, deadline, now))
        self.held.update(fresh)
        self.waiting.extend(fresh)
        self._start_waiting()
        if self._leaving:  # they were claimed while the worker was asked to stop
            self.put_back()
        return len(claims) - len(taken)

    def _start_waiting(self) -> None:
        """Start as many waiting runs as there are free slots. A job that came too late while it
        waited is settled instead."""
        self._is_start_scheduled = False
        slots = 0 if self._leaving else self._slots
        now = time.monotonic()
        start, since, done, context = None, 0.0, self._task_done, self._clean_context
        while self.waiting and self._running < slots:
            execution = self.waiting.popleft()
            claim, task = execution.claim, execution.task
            starts = self._starts.runs
            if claim.options != PLAIN_OPTIONS and may_come_too_late(claim.options):
                why = refusal(claim, now - execution.since)
                if why is not None:
                    self._finish(execution, why)
                    continue
                if task.executor != "loop":
                    starts = self._starts.undecided
            self._running += 1
            self.started += 1
            if (
                start is None
                or execution.since != since
                or claim.task != start.task
                or claim.queue != start.queue
                or claim.attempts != start.attempts
            ):  # neighbours are mostly alike, and share one `Start`
                since = execution.since
                start = Start(claim.task, claim.queue, claim.attempts, now - since)
            execution.start, execution.since, execution.waited = start, now, now - since
            starts.append(execution)
            if task.executor == "thread":
                self._start_on_thread(execution)
            else:
                run = run_async if task.is_async else self._processes.run
                execution.handler = self._make_task(
                    run(execution, done), name=claim.id, context=context.copy()
                )

    def _start_on_thread(self, execution: Execution) -> None:
        execution.started = True
        options = options_of(execution.claim.options)
        timeout = options.timeout
        if options.deadline is not None:
            timeout = seconds_left(execution.claim, execution.waited)
        if timeout is not None:
            loop = self._runs.loop
            execution.timer = loop.call_later(timeout, self._overrun, execution)
        self._threads.run(execution)

    def _run_own_or_leave(self, claim: Claim, deadline: float) -> None:
        if claim.task in FLOW_TASKS:
            self.flows.run_own(claim, deadline)
        else:
            self.flows.is_used |= is_step(claim.id)
            self._leave_to_others(claim)

    def _start_prepared(self, execution: Execution) -> None:
        """A step of a flow is ready to run."""
        if execution.settled:  # the worker has given it back meanwhile
            return
        self.waiting.append(execution)
        self._start_waiting()
        if self._leaving:
            self.put_back()

    def _leave_to_others(self, claim: Claim) -> None:
        """Put back a job whose task this worker does not know, unless it came too late anyway."""
        self._warnings.unknown(claim)
        self._settle_unstarted(claim, refusal(claim) or Unknown())

    def emit_started(self) -> None:
        """Report the runs that started since the last call and have not ended."""
        starts = self._starts
        if (starts.runs or starts.undecided) and (begun := starts.take()):
            context = self._context
            context.emit(RunsStarted(begun, context.id, context.clock.now()))

    # ------------------------------------------------------------ ending runs

    def _task_done(self, execution: Execution, ending: Ending) -> None:
        """The run in a task has ended. Runs that end in the same round of the event loop free their
        slots together."""
        self._running -= 1
        if not execution.settled:
            self._finish(execution, ending)
        if self.waiting and not self._is_start_scheduled:
            self._is_start_scheduled = True
            self._runs.loop.call_soon(self._start_waiting)

    def _thread_done(self, execution: Execution, ending: Ending) -> None:
        """The handler has left its thread. Only now its slot is free: it was in use beyond a
        timeout."""
        self._running -= 1
        if execution.timer is not None:
            execution.timer.cancel()
        if not execution.settled:
            self._finish(execution, ending)
        else:
            self.changed.set()
        self._start_waiting()

    def _overrun(self, execution: Execution) -> None:
        """A thread cannot be stopped. Its job is settled when it ends, and keeps its lease until
        then: another run with the same resource key must not start beside it."""
        if execution.settled or execution.stop is not None:
            return
        execution.halt(Stop.TIMED_OUT)
        log_overrun(execution.claim, time.monotonic() - execution.since)

    def _finish(self, execution: Execution, ending: Ending) -> None:
        """Turn the ending of a run into a settlement. A run that lost its lease has none: another
        worker owns the job now."""
        execution.settled = True
        self.held.discard(execution)
        self.finished += 1
        claim, stop = execution.claim, execution.stop
        if stop is not Stop.LOST:
            seconds = time.monotonic() - execution.since
            if ending is self._success_ending:  # runs that return nothing share their ending
                verdict = self._success
            else:
                spent = execution.waited + seconds
                verdict = judge(claim, ending, self._retention, random.random(), spent=spent)
                if verdict.is_plain_success:
                    self._success_ending, self._success = ending, verdict
            if verdict.state is not State.SUCCEEDED:
                log_verdict(claim, verdict, seconds, execution)
                self._warnings.slowed(claim, verdict)
                if verdict.unstarted:
                    execution.start = None  # nothing has started that could be reported
            elif self._logs_successes:
                log_success(claim, self._success_level, seconds)
            # the start of a run that was asked to stop is reported by `emit_started`
            start = execution.start if stop is None else None
            settlement = Settlement(
                claim, verdict, seconds, stop is Stop.CANCELLED, start, execution.waited
            )
            if self.flows.is_used and is_step(claim.id):
                if execution.span is not None:
                    settlement = replace(settlement, span=span_id(execution.span))
                if verdict.state is State.SUCCEEDED and place_of(claim):
                    self.flows.tell(with_added(settlement, ending), execution.deadline)
                    return
            is_first = not self.ended
            self.ended.append(settlement)
            if not is_first:  # the claim loop knows of the first
                return
        self.changed.set()

    def _settle_soon(self, settlement: Settlement) -> None:
        self.ended.append(settlement)
        self.changed.set()

    def _settle_unstarted(self, claim: Claim, ending: Ending) -> None:
        """Settle a claim that was never given a slot."""
        verdict = judge(claim, ending, self._retention, random.random())
        log_verdict(claim, verdict, 0.0)
        self.ended.append(Settlement(claim, verdict))
        self.changed.set()

    # ------------------------------------------------------------ the worker asks

    def was_completed(self, claim: Claim) -> bool:
        """Whether the handler settled this claim in its own transaction. Returns True only once."""
        return self._runs.was_completed(claim)

    def kill_processes(self) -> None:
        """Kill the handler processes, from any thread: only then may their jobs return to the
        queue."""
        self._processes.kill()

    async def prepare(self) -> None:
        """Start the first handler process, if a task needs one. Raises UsageError if it cannot."""
        await self._processes.prepare()

    async def close(self) -> None:
        """End the threads and the handler processes."""
        self._threads.close()
        await self._processes.close()
