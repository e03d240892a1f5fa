"""Processes for sync handlers that need the processor: started when they are first needed, and
reused."""

import asyncio
import logging
import os
import sys
import time

from msgspec import Struct

from mita.errors import UsageError
from mita.model.ending import Died, Ending, Interrupted, Unknown
from mita.ports.backoff import Backoff
from mita.rules.expiry import refusal, seconds_left
from mita.rules.judge import Retention

from .execution import Execution
from .frames import Hello
from .handler_process import CannotStartError, HandlerProcess
from .run import Done, broken, run_limited, stopped
from .run_context import Stop

log = logging.getLogger("mita.worker")

STOP_TIMEOUT_S = 2.0  # for idle processes to end by themselves
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0  # after a process that could not start


class ProcessPlan(Struct, frozen=True, kw_only=True):
    """How many handler processes there may be, and what they import. See `Hello`."""

    target: str
    modules: tuple[str, ...]
    url: str
    namespace: str
    size: int
    logs: tuple[str, bool] | None = None


def usable_processors() -> int:
    """Returns how many processors this process may use; a container or an affinity may limit
    them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _hello(plan: ProcessPlan, keep: Retention, room: int | None) -> Hello:
    return Hello(
        target=plan.target,
        modules=plan.modules,
        path=tuple(sys.path),
        url=plan.url,
        namespace=plan.namespace,
        keep=keep,
        room=room,
        worker=os.getpid(),
        logs=plan.logs,
    )


class Processes:
    """At most `plan.size` handler processes; none without a plan."""

    def __init__(self, plan: ProcessPlan | None, keep: Retention, room: int | None) -> None:
        self.size = 0 if plan is None else plan.size
        self._hello = None if plan is None else _hello(plan, keep, room)
        self._free = asyncio.Semaphore(self.size or 1)
        self._idle: list[HandlerProcess] = []
        self._all: set[HandlerProcess] = set()
        self._backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, jitter=False)
        self._no_start_before = 0.0
        self.busy = 0  # runs that have a process, or wait for one

    async def prepare(self) -> None:
        """Start the first process, so that an app which cannot be imported there is known before a
        job is claimed. Raises UsageError then."""
        if self._hello is None:
            return
        try:
            self._idle.append(await self._launch(self._hello))
        except CannotStartError as error:
            raise UsageError(
                f"tasks with executor='process' cannot run: a handler process cannot start: {error}"
            ) from error

    async def run(self, execution: Execution, done: Done) -> None:
        """Run a job in a process, and call `done` with its ending. Cancel the task around it to
        stop it."""
        execution.started = True
        self.busy += 1
        try:
            ending = await self._run(execution)
        except BaseException as error:  # noqa: BLE001
            # without an ending the job would run for ever
            ending = broken(execution, error)
        self.busy -= 1
        if execution.reports is not None:
            await execution.close_reports()
        done(execution, ending)

    async def _run(self, execution: Execution) -> Ending:
        try:
            async with self._free:
                ending, began = await self._try(execution)
                if isinstance(ending, Died) and not began:
                    # the process died while it was idle: that is no crash of this job
                    ending, _ = await self._try(execution)
                return ending
        except asyncio.CancelledError:  # the run was stopped before it had a process
            if execution.stop is None:
                raise
            return (
                Interrupted(started=False)
                if execution.stop is Stop.SHUTDOWN
                else stopped(execution)
            )

    async def _try(self, execution: Execution) -> tuple[Ending, bool]:
        """Returns the ending, and whether a process began the job at all."""
        child = await self._take()
        if child is None:
            return Unknown(), False
        spent = execution.spent
        try:
            if (why := refusal(execution.claim, spent)) is not None:
                return why, False
            execution.begun = True
            timeout = seconds_left(execution.claim, spent)
            return await run_limited(execution, timeout, child.run), child.began
        finally:
            self._give_back(child)

    async def _take(self) -> HandlerProcess | None:
        """Returns a process. None if none can be started now: the job is left for other workers,
        like a job of an unknown task."""
        while self._idle:
            if (child := self._idle.pop()).alive:
                return child
            self._all.discard(child)
        # no plan: the task was declared after the worker started
        if self._hello is None or time.monotonic() < self._no_start_before:
            return None
        try:
            child = await self._launch(self._hello)
        except CannotStartError as error:
            self._pause(error)
            return None
        self._backoff.reset()
        return child

    async def _launch(self, hello: Hello) -> HandlerProcess:
        child = await HandlerProcess.launch(hello)
        self._all.add(child)
        log.debug("handler process %d is ready", child.pid)
        return child

    def _pause(self, error: CannotStartError) -> None:
        pause = self._backoff.fail()
        self._no_start_before = time.monotonic() + pause
        text = (
            "a handler process cannot start, so its jobs are left for other workers; next try "
            "in %g s: %s"
        )
        log.error(text, pause, error)

    def _give_back(self, child: HandlerProcess) -> None:
        if child.alive:
            self._idle.append(child)
        else:
            self._all.discard(child)

    def kill(self) -> None:
        """Kill all processes, from any thread: the worker's process is about to end."""
        for child in list(self._all):
            child.kill()

    async def close(self) -> None:
        """End all processes: none outlives its worker."""
        async with asyncio.TaskGroup() as group:
            for child in self._all:
                group.create_task(child.close(STOP_TIMEOUT_S))
