"""The runs that a worker holds, and how they are stopped."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from contextvars import copy_context

from mita.model.ending import Ending, Interrupted
from mita.model.outcome import Settlement
from mita.rules.judge import Retention

from . import left_behind
from .execution import Execution
from .job_log import log_lost_lease
from .run import task_maker
from .run_context import Stop
from .thread_pool import ThreadPool


class HeldRuns(ABC):
    """The runs of one worker that have not ended, and the settlements of runs that have."""

    def __init__(self, keep: Retention, threads: ThreadPool) -> None:
        self._retention, self._threads = keep, threads
        self._make_task = task_maker(asyncio.get_running_loop())
        # every run gets a copy of this one: the current context may be that of another run, whose
        # handler has set variables in it
        self._clean_context = copy_context()
        self.changed = asyncio.Event()
        self.ended: list[Settlement] = []  # not settled in the store yet
        self.waiting: deque[Execution] = deque()  # claimed, without a slot yet
        self.held: set[Execution] = set()  # waiting or running; the lease keeper reads it too
        self._leaving = False

    @abstractmethod
    def _finish(self, execution: Execution, ending: Ending) -> None:
        """Turn the ending of a run into a settlement."""

    def lose(self, execution: Execution) -> None:
        """Stop a run whose lease is lost. A handler on a thread sees `job.cancelled`, and keeps its
        slot until it ends."""
        if execution.settled or execution.stop is Stop.LOST:
            return
        log_lost_lease(execution.claim, time.monotonic() - execution.since)
        execution.halt(Stop.LOST)
        execution.stop = Stop.LOST  # even if it was asked to stop for another reason before

    def put_back(self, waited_s: float = 0.0) -> None:
        """Return jobs to the queue, untouched, that have waited for a slot for this long."""
        before = time.monotonic() - waited_s
        while self.waiting and self.waiting[0].since <= before:
            self._finish(self.waiting.popleft(), Interrupted(started=False))

    def leave(self) -> None:
        """Start nothing more, and return jobs without a slot to the queue."""
        self._leaving = True
        self.put_back()

    def interrupt(self) -> None:
        """The grace time is over: stop every run and return its job to the queue."""
        for execution in list(self.held):
            execution.halt(Stop.SHUTDOWN)
            if execution.handler is None:
                if execution.started and execution.stop is Stop.SHUTDOWN:
                    left_behind.warn(
                        execution,
                        "is returned to the queue; its handler cannot be stopped, and runs until "
                        "this process ends",
                    )
                if execution.reports is None:
                    self._finish(execution, left_behind.ending(execution))
                else:
                    finishing = self._finish_with_progress(execution)
                    context = self._clean_context.copy()
                    self._make_task(finishing, name=execution.claim.id, context=context)

    async def _finish_with_progress(self, execution: Execution) -> None:
        """Write the last progress of a handler on a thread first: its next run continues there."""
        await execution.close_reports()
        if not execution.settled:
            self._finish(execution, left_behind.ending(execution))

    def abandon(self) -> None:
        """Return to the queue the jobs of handlers that still run although they were cancelled."""
        for execution in list(self.held):
            left_behind.warn(
                execution,
                "still runs although it was cancelled: it is returned to the queue, and its "
                "handler is not waited for",
            )
            self._finish(execution, left_behind.ending(execution))

    def running(self) -> list[str]:
        """Returns a text for each job that runs now. Any thread may call it."""
        return left_behind.described(self.held)

    def on_threads(self) -> list[str]:
        """Returns a text for each job whose handler is on a thread now."""
        return left_behind.described_on_threads(self._threads.running)

    def unsettled(self) -> list[Settlement]:
        """Returns a settlement for every job held here, for a worker that can wait no longer. Any
        thread may call it."""
        return [*self.ended, *left_behind.settlements(self.held, self._retention)]
