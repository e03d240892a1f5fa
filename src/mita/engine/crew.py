"""Who is running what: starts claims as slots are free, and hands each ending on as a settlement."""

import logging
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from mita.model.job import Claim, State
from mita.model.outcome import Ending, Interrupted, Returned, Settlement, TimedOut, Unknown, Verdict
from mita.ports.store import Store
from mita.rules.judge import Keep, first_line, judge
from mita.rules.options import options_of
from mita.rules.pace import Load
from mita.tasks import Task
from mita.watch.notes import Begun

from .execution import Execution, Home, Stop
from .run import run_async
from .threads import Threads

log = logging.getLogger("mita.worker")


TOO_LONG = 1.0  # seconds that a claimed job may wait here for a slot before others get it back


class Crew:
    """`settle` is called with each settlement, and `freed` when a run ended without one; both on the loop."""

    def __init__(
        self,
        tasks: Mapping[str, Task[Any, Any]],
        store: Store,
        keep: Keep,
        slots: int,
        threads: int,
        settle: Callable[[Settlement], None],
        freed: Callable[[], None],
    ) -> None:
        self._tasks, self._keep, self._slots = tasks, keep, slots
        self._settle, self._freed = settle, freed
        self._home = Home(store, keep)
        self._loop = self._home.loop
        self._threads = Threads(threads, self._thread_done)
        self._thread_limit = threads if any(not task.is_async for task in tasks.values()) else 0
        self._waiting: deque[Execution] = deque()
        self.held: set[Execution] = set()  # running and waiting; read by the keeper's thread
        self._active = 0
        self._leaving = False
        self._strangers: set[str] = set()
        self._tells_all = log.isEnabledFor(logging.DEBUG)
        self._success = Verdict(state=State.SUCCEEDED, keep=keep.succeeded)  # the latest
        self.finished = 0
        self.began: list[Begun] = []  # runs that nobody was told of yet, and how long each waited here

    # ------------------------------------------------------------ taking on

    def load(self, rate: float) -> Load:
        return Load(self._slots, self._active, len(self._waiting), rate, self._thread_limit, self._threads.busy)

    @property
    def idle(self) -> bool:
        return not self.held

    def take(self, claims: list[Claim], deadline: float) -> None:
        """Start these as slots allow; `deadline` is when their leases end on this machine's clock."""
        now = self._loop.time()
        for claim in claims:
            task = self._tasks.get(claim.task)
            if task is None:
                self._meet(claim)
                continue
            execution = Execution(claim, task, self._home, deadline, now)
            self.held.add(execution)
            self._waiting.append(execution)
        self._start_waiting()
        if self._leaving:  # these were on their way when we were asked to leave
            self.put_back()

    def _meet(self, claim: Claim) -> None:
        """A job whose task is unknown here is left for others. It comes back every two seconds: one line per task."""
        if claim.task not in self._strangers:
            self._strangers.add(claim.task)
            text = "job %s is left for other workers: this one does not know the task %s"
            log.warning(text, claim.id, claim.task, extra=extras(claim, "stranded"))
        self._settle_as(claim, Unknown())

    def _start_waiting(self) -> None:
        while self._waiting and self._active < self._slots and not self._leaving:
            self._start(self._waiting.popleft())

    def _start(self, execution: Execution) -> None:
        self._active += 1
        now = self._loop.time()
        self.began.append(Begun(execution.claim, now - execution.since))
        execution.since = now
        if execution.task.is_async:
            execution.handler = self._loop.create_task(self._run(execution))
            return
        execution.started = True
        timeout = options_of(execution.claim.options).timeout
        if timeout is not None:
            self._loop.call_later(timeout, self._expire, execution, timeout)
        self._threads.give(execution)

    async def _run(self, execution: Execution) -> None:
        execution.started = True
        ending = await run_async(execution)
        self._active -= 1
        self._end(execution, ending)
        if self._waiting:
            self._start_waiting()

    # ------------------------------------------------------------ putting down

    def _thread_done(self, execution: Execution, ending: Ending) -> None:
        """The slot is free only now: a thread that outlived its time-out was still in it."""
        self._active -= 1
        if not execution.settled:
            self._end(execution, ending)
        else:
            self._freed()
        self._start_waiting()

    def _expire(self, execution: Execution, timeout: float) -> None:
        if not execution.settled:
            self._end(execution, TimedOut(timeout))

    def _end(self, execution: Execution, ending: Ending) -> None:
        execution.settled = True
        self.held.discard(execution)
        self.finished += 1
        if execution.stop is Stop.LOST:  # somebody else has the job: whatever we say would be stale
            self._freed()
            return
        seconds = self._loop.time() - execution.since
        self._settle_as(execution.claim, ending, seconds, told=execution.stop is Stop.CANCELLED)

    def _settle_as(self, claim: Claim, ending: Ending, seconds: float = 0.0, *, told: bool = False) -> None:
        if type(ending) is Returned:  # the happy path, a million times a day
            verdict = self._success
            if verdict.result != ending.result:  # most give back what the one before them gave: nothing
                verdict = self._success = Verdict(state=State.SUCCEEDED, result=ending.result, keep=verdict.keep)
            if self._tells_all:
                log.debug("job %s of %s succeeded", claim.id, claim.task, extra=extras(claim, "succeeded", seconds))
        else:
            verdict = judge(claim, ending, options_of(claim.options).retry, self._keep, random.random())
            report(claim, verdict, seconds)
        self._settle(Settlement(claim, verdict, seconds, told))

    # ------------------------------------------------------------ being told

    def lose(self, execution: Execution) -> None:
        """The lease is gone. A handler on a thread can only be told; its slot is taken until it ends."""
        if execution.settled or execution.stop is Stop.LOST:
            return
        claim = execution.claim
        seconds = self._loop.time() - execution.since
        log.warning("job %s of %s lost its lease", claim.id, claim.task, extra=extras(claim, "lease lost", seconds))
        execution.halt(Stop.LOST)
        execution.stop = Stop.LOST  # whatever it was told before, this comes first

    def put_back(self, waited: float = 0.0) -> None:
        """What has waited so long without a start goes back to the queue as if it had never been touched."""
        before = self._loop.time() - waited
        while self._waiting and self._waiting[0].since <= before:
            execution = self._waiting.popleft()
            self._end(execution, Interrupted(started=False))

    def was_completed(self, claim: Claim) -> bool:
        """Did the handler settle this claim in a transaction of its own? Asked once, when its verdict came too late."""
        key = claim.id, claim.token
        if key in self._home.completed:
            self._home.completed.remove(key)
            return True
        return False

    def leave(self) -> None:
        """Start nothing more."""
        self._leaving = True
        self.put_back()

    def interrupt(self) -> None:
        """The grace time is over: whatever still runs is put back, and counted as interrupted."""
        for execution in list(self.held):
            execution.halt(Stop.SHUTDOWN)
            if execution.handler is None:
                self._end(execution, Interrupted(started=True))

    def close(self) -> None:
        self._threads.close()


def extras(claim: Claim, event: str, seconds: float = 0.0) -> dict[str, object]:
    """What a log line says beside its text: never arguments or results."""
    where = {"job": claim.id, "task": claim.task, "queue": claim.queue, "attempt": claim.attempts + 1}
    return {**where, "event": event, "seconds": round(seconds, 6)}


def report(claim: Claim, verdict: Verdict, seconds: float) -> None:
    """One line for each ending that is worth one."""
    level = logging.ERROR if verdict.state is State.FAILED else logging.INFO
    if verdict.event and log.isEnabledFor(level):
        what = f"{verdict.event}: {first_line(verdict.note)}" if verdict.note else verdict.event
        log.log(level, "job %s of %s %s", claim.id, claim.task, what, extra=extras(claim, verdict.event, seconds))
