"""Who is running what: starts claims as slots are free, and turns each ending into a settlement."""

import logging
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from mita.events.signals import Begun
from mita.model.job import Claim, State
from mita.model.outcome import Ending, Interrupted, Settlement, Start, Unknown
from mita.model.time import SECOND, Wait
from mita.ports.store import Store
from mita.rules.claim_size import Load
from mita.rules.judge import Retention, judge
from mita.rules.options import options_of
from mita.tasks import Task

from . import left_behind
from .execution import Execution, RunContext, Stop
from .full_pools import with_a_place
from .job_log import extras, report, report_lost, report_overrun, report_success
from .processes import Processes, ProcessPlan
from .run import run_async, task_maker
from .thread_pool import ThreadPool

log = logging.getLogger("mita.worker")

TOO_LONG = 1.0  # seconds that a claimed job may wait here for a slot before others get it back


class Executor:
    """What ended waits in `done`. `news` is called on the loop when there is something in it, or a
    slot is free without."""

    def __init__(
        self,
        tasks: Mapping[str, Task[Any, Any]],
        store: Store,
        keep: Retention,
        slots: int,
        threads: int,
        news: Callable[[], None],
        processes: ProcessPlan | None = None,
        verbose: bool = False,
        lease: Wait = 30 * SECOND,
    ) -> None:
        self._tasks, self._keep, self._slots, self._news = tasks, keep, slots, news
        self._home = RunContext(store, keep, lease)
        self.was_completed = self._home.was_completed
        self._loop = self._home.loop
        self._make_task = task_maker(self._loop)
        self._threads = ThreadPool(threads, self._thread_done)
        self._thread_limit = (
            threads if any(task.executor == "thread" for task in tasks.values()) else 0
        )
        self._processes = Processes(processes, keep, store.room, self._task_done)
        self._waiting: deque[Execution] = deque()
        self.held: set[Execution] = set()  # running and waiting; read by the keeper's thread
        self._active = 0
        self._starting = False  # a start of those that wait is on its way
        self._leaving = False
        self._strangers: set[str] = set()
        self._success_level = logging.INFO if verbose else logging.DEBUG
        self._tells_all = log.isEnabledFor(self._success_level)
        self.finished = 0
        self.started = 0
        self.done: list[Settlement] = []  # put down here, and not in the store yet
        self._began: list[Execution] = []  # whose start nobody was told of yet

    # ------------------------------------------------------------ taking on

    def load(self, rate: float) -> Load:
        pools = self._thread_limit, self._threads.busy, self._processes.size, self._processes.busy
        return Load(self._slots, self._active, len(self._waiting), rate, *pools)

    @property
    def waiting(self) -> int:
        """Claimed, and without a slot yet."""
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        return not self.held

    def executors(self) -> set[str]:
        """What the tasks of this worker run on."""
        return {task.executor for task in self._tasks.values()}

    def take(self, claims: list[Claim], deadline: float, *, beside: bool = False) -> int:
        """Start these as slots allow; `deadline` is when their leases end on this machine's clock.
        `beside`: they were claimed while a pool was full, so what has no place there goes back to
        the queue as if it had never been touched. Returns how many did."""
        now, fresh = time.monotonic(), []
        all_claims = len(claims)
        if beside:
            claims, others = with_a_place(claims, self._tasks, self.load(0.0))
            for claim in others:
                self._put_down(claim, Interrupted(started=False))
        self._home.look_for_tracer()
        for claim in claims:
            task = self._tasks.get(claim.task)
            if task is None:
                self._meet(claim)
            else:
                fresh.append(Execution(claim, task, self._home, deadline, now))
        self.held.update(fresh)
        self._waiting.extend(fresh)
        self._start_waiting()
        if self._leaving:  # these were on their way when we were asked to leave
            self.put_back()
        return all_claims - len(claims)

    def _meet(self, claim: Claim) -> None:
        """A job whose task is unknown here is left for others. It comes back every two seconds: one
        line per task."""
        if claim.task not in self._strangers:
            self._strangers.add(claim.task)
            text = "job %s is left for other workers: this one does not know the task %s"
            log.warning(text, claim.id, claim.task, extra=extras(claim, "stranded"))
        self._put_down(claim, Unknown())

    def _start_waiting(self) -> None:
        """As many as there are slots for, with one look at the clock for all of them."""
        self._starting = False
        count = 0 if self._leaving else max(0, min(self._slots - self._active, len(self._waiting)))
        self._active += count
        self.started += count
        now = time.monotonic()
        task = since = queue = attempts = start = None
        for _ in range(count):
            execution = self._waiting.popleft()
            claim = execution.claim
            if (
                execution.task is not task
                or execution.since is not since
                or claim.attempts != attempts
                or (claim.queue is not queue and claim.queue != queue)
            ):  # neighbours are mostly alike, and share what is known of their start
                task, since, queue, attempts = (
                    execution.task,
                    execution.since,
                    claim.queue,
                    claim.attempts,
                )
                start = Start(claim.task, queue, attempts, now - since)
            execution.start, execution.since = start, now
            self._began.append(execution)
            if execution.task.is_async:
                execution.handler = self._make_task(
                    run_async(execution, self._task_done), name=claim.id
                )
            elif execution.task.executor == "process":
                execution.handler = self._make_task(self._processes.run(execution), name=claim.id)
            else:
                self._start_on_thread(execution)

    def _start_on_thread(self, execution: Execution) -> None:
        execution.started = True
        timeout = options_of(execution.claim.options).timeout
        if timeout is not None:
            execution.timer = self._loop.call_later(timeout, self._expire, execution, timeout)
        self._threads.give(execution)

    # ------------------------------------------------------------ putting down

    def _task_done(self, execution: Execution, ending: Ending) -> None:
        """Those that end in one round of the loop make room together."""
        self._active -= 1
        if not execution.settled:
            self._end(execution, ending)
        if self._waiting and not self._starting:
            self._starting = True
            self._loop.call_soon(self._start_waiting)

    def _thread_done(self, execution: Execution, ending: Ending) -> None:
        """The slot and the resource key are free only now: a handler that outlived its time-out
        still had them."""
        self._active -= 1
        if execution.timer is not None:
            execution.timer.cancel()
        if not execution.settled:
            self._end(execution, ending)
        else:
            self._news()
        self._start_waiting()

    def _expire(self, execution: Execution, timeout: float) -> None:
        """A thread cannot be stopped. Its job is settled when it ends: another run of the same
        resource key must not start beside it. Until then its lease is kept."""
        if execution.settled or execution.stop is not None:
            return
        execution.halt(Stop.TIMED_OUT)
        report_overrun(execution.claim, timeout)

    def _end(self, execution: Execution, ending: Ending) -> None:
        execution.settled = True
        self.held.discard(execution)
        self.finished += 1
        if execution.stop is Stop.LOST:  # somebody else has the job: whatever we say would be stale
            self._news()
            return
        seconds = time.monotonic() - execution.since
        # of one that was stopped, `began` tells it
        start = execution.start if execution.stop is None else None
        self._put_down(
            execution.claim, ending, seconds, execution.stop is Stop.CANCELLED, start, execution
        )

    def _put_down(
        self,
        claim: Claim,
        ending: Ending,
        seconds: float = 0.0,
        told: bool = False,
        start: Start | None = None,
        execution: Execution | None = None,
    ) -> None:
        verdict = judge(claim, ending, self._keep, random.random())
        if verdict.state is not State.SUCCEEDED:
            report(claim, verdict, seconds, execution)
        elif self._tells_all:
            report_success(claim, self._success_level, seconds)
        if not self.done:
            self._news()
        self.done.append(Settlement(claim, verdict, seconds, told, start))

    def began(self) -> list[Begun]:
        """Runs that began since this was asked last and are under way, or were stopped. Most are
        over by now: whoever watches hears of their start together with their end, which costs half
        as much."""
        begun = []
        for execution in [one for one in self._began if not one.settled or one.stop is not None]:
            if execution.start is not None:
                begun.append(Begun(execution.claim, execution.start.waited))
                execution.start = None
        self._began.clear()
        return begun

    # ------------------------------------------------------------ being told

    def lose(self, execution: Execution) -> None:
        """The lease is gone. A handler on a thread can only be told; its slot is taken until it
        ends."""
        if execution.settled or execution.stop is Stop.LOST:
            return
        report_lost(execution.claim, time.monotonic() - execution.since)
        execution.halt(Stop.LOST)
        execution.stop = Stop.LOST  # whatever it was told before, this comes first

    def put_back(self, waited: float = 0.0) -> None:
        """What has waited so long without a start goes back to the queue as if it had never been
        touched."""
        before = time.monotonic() - waited
        while self._waiting and self._waiting[0].since <= before:
            execution = self._waiting.popleft()
            self._end(execution, Interrupted(started=False))

    def leave(self) -> None:
        """Start nothing more."""
        self._leaving = True
        self.put_back()

    def interrupt(self) -> None:
        """The grace time is over: whatever still runs is put back, and counted as interrupted."""
        for execution in list(self.held):
            execution.halt(Stop.SHUTDOWN)
            if execution.handler is None:
                if execution.started and execution.stop is Stop.SHUTDOWN:
                    left_behind.warn(
                        execution,
                        "is put back; its handler cannot be stopped, and runs on until this "
                        "process ends",
                    )
                if execution.reports is None:
                    self._end(execution, left_behind.ending(execution))
                else:
                    self._make_task(self._end_with_progress(execution), name=execution.claim.id)

    async def _end_with_progress(self, execution: Execution) -> None:
        """The last report of a handler on a thread is where its next run goes on."""
        await execution.close_reports()
        if not execution.settled:
            self._end(execution, left_behind.ending(execution))

    def abandon(self) -> None:
        """Those that go on although they were cancelled are put back all the same."""
        for execution in list(self.held):
            left_behind.warn(
                execution,
                "goes on although it was cancelled: it is put back, and its handler left to itself",
            )
            self._end(execution, left_behind.ending(execution))

    def running(self) -> list[str]:
        """What runs now, for people. Called on another thread: it only reads."""
        return left_behind.described(self.held)

    def on_threads(self) -> list[str]:
        """What runs on threads, for people."""
        return left_behind.described_on_threads(self._threads.running)

    def unsettled(self) -> list[Settlement]:
        """What a worker puts down that can wait for nothing more. Called on another thread: it only
        reads."""
        return [*self.done, *left_behind.settlements(self.held, self._keep)]

    def kill_processes(self) -> None:
        """From any thread: a job that ran in a process may be put back only when that is gone."""
        self._processes.kill()

    async def prepare(self) -> None:
        """What must work before a job is claimed."""
        await self._processes.prepare()

    async def close(self) -> None:
        self._threads.close()
        await self._processes.close()
