"""Runs the jobs of a lab: one after the other, within a time limit, with their errors."""

import asyncio
import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from mita.engine.emptiness import is_empty
from mita.engine.execution import Execution
from mita.engine.inline import Inline, InlineRun
from mita.engine.run import run_async, run_sync
from mita.errors import JobFailed, UsageError
from mita.model.ending import Ending, Raised, TimedOut, Unknown, Unreadable
from mita.model.job import State
from mita.model.time import SECOND, Moment
from mita.ports.store import Can
from mita.tasks.calls import unknown_task

from .calling_thread import CallingThread
from .clock import FakeClock
from .lab_outbox import LabOutbox

MOST_RUNS = 100_000  # jobs that lead to new jobs for ever must not hang a test
STOP_S = 1.0  # for a handler that is told to stop
UNSEEN_S, UNSEEN_TRIES = 0.02, 250  # a server may show a new job a little later

_FAILED = Raised | TimedOut | Unknown | Unreadable


class LabResult(NamedTuple):
    """How many handlers were run, and the error at which the lab stopped."""

    runs: int
    error: BaseException | None = None


class _TooLong(BaseException):
    """Raised inside a sync handler that has run for too long."""


class LabInline(Inline):
    """Runs jobs on one event loop. Sync handlers run on the thread of a sync test, else on a thread
    of their own. A run that takes longer than `time_limit` seconds is ended, and raises
    `UsageError`."""

    caller: CallingThread
    time_limit: float
    outbox: LabOutbox | None = None

    async def run_until(self, clock: FakeClock, end: Moment, raises: bool) -> LabResult:
        """Run what is due, and move the clock from due time to due time until `end`. Stops at the
        first error if `raises`."""
        await self.shared.start()
        await self.relay()
        runs, unseen, names = 0, 0, dict[str, int]()
        while True:
            claims, run, wait = await self.step()
            if run is not None:
                runs += 1
                names[run.claim.task] = names.get(run.claim.task, 0) + 1
                if runs > MOST_RUNS:
                    raise _no_end(names)
                error = self._surfacing(run, raises)
                if error is not None:
                    return LabResult(runs, error)
            if claims or await self.relay():
                unseen = 0
            elif wait is not None and clock.now() + wait <= end:
                clock.move_ms(wait)
            elif unseen < UNSEEN_TRIES and not await self._is_drained():
                unseen += 1
                await asyncio.sleep(UNSEEN_S)
            else:
                return LabResult(runs)

    async def relay(self) -> bool:
        """Send the rows of the outbox to the store. Returns whether there were any."""
        return self.outbox is not None and await self.outbox.send(self._store, self.time_limit)

    async def _is_drained(self) -> bool:
        """Whether a claim that found nothing proves that nothing is due."""
        if Can.OBEY_A_FAKE_CLOCK in self._store.can:
            return True
        return await is_empty(self._store, lambda _: True)

    # ------------------------------------------------------------ errors

    def _surfacing(self, run: InlineRun, raises: bool) -> BaseException | None:
        """The error that the test must see. Ctrl-C and `pytest.fail` it sees in any case."""
        if not isinstance(run.ending, _FAILED):
            return None
        error = run.error
        if error is None:
            error = self._error_of(run)
        if raises:
            return _noted(error, run)
        return error if _ends_the_test(error) else None

    def _error_of(self, run: InlineRun) -> Exception:
        """The error of a run whose handler raised none."""
        if isinstance(run.ending, Unknown):
            return UsageError(unknown_task(run.claim.task, self._tasks))
        return JobFailed(run.claim.id, run.verdict.error or "")

    # ------------------------------------------------------------ one run

    async def _call_sync(self, execution: Execution) -> Ending:
        def call() -> Ending:
            with self._ended_in_time():
                return run_sync(execution)

        if self.caller.waits:
            ending = await self.caller.call(call)
        else:
            running = asyncio.ensure_future(asyncio.to_thread(call))
            await asyncio.wait([running], timeout=self.time_limit + STOP_S)
            if not running.done():
                raise self._too_long(execution)
            ending = await running
        if isinstance(execution.error, _TooLong):
            raise self._too_long(execution)
        return ending

    async def _call_async(self, execution: Execution) -> Ending:
        running = asyncio.create_task(run_async(execution))
        try:
            await asyncio.wait([running], timeout=self.time_limit)
            if running.done():
                return await running
        finally:
            if not running.done():
                running.cancel()
                await asyncio.wait([running], timeout=STOP_S)
        raise self._too_long(execution)

    @contextmanager
    def _ended_in_time(self) -> Iterator[None]:
        """Raise `_TooLong` in this thread when the time is over. Python code notices it at once, a
        call into C when it returns."""
        here, over = threading.get_ident(), threading.Lock()
        is_over = False

        def end() -> None:
            with over:
                if not is_over:
                    _raise_in(here, _TooLong)

        timer = threading.Timer(self.time_limit, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            with over:
                is_over = True
            timer.cancel()

    def _too_long(self, execution: Execution) -> UsageError:
        claim = execution.claim
        return UsageError(
            f"the handler of task {claim.task!r} (job {claim.id}) has not ended after "
            f"{self.time_limit:g} s of real time. Does it wait for a job? In a lab jobs run one "
            "after the other, so that job cannot start. Does it really sleep? Replace that in "
            "tests. For a handler that takes this long: lab(app, time_limit=…)"
        )


def _raise_in(thread: int, error: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


def _ends_the_test(error: BaseException) -> bool:
    outcomes = sys.modules.get("_pytest.outcomes")
    kinds = (
        (KeyboardInterrupt,)
        if outcomes is None
        else (
            KeyboardInterrupt,
            outcomes.OutcomeException,
        )
    )
    return isinstance(error, kinds)


def _no_end(names: dict[str, int]) -> UsageError:
    most = sorted(names, key=lambda name: -names[name])[:3]
    counts = ", ".join(f"{name!r} {names[name]:,} times" for name in most)
    return UsageError(
        f"{MOST_RUNS:,} runs and no end ({counts}): does each run lead to another one at once?"
    )


def _noted(error: BaseException, run: InlineRun) -> BaseException:
    """The error with a note: whose it is, and what becomes of the job."""
    claim, verdict = run.claim, run.verdict
    after = "" if verdict.when is None else f" after {verdict.when.wait / SECOND:g} s"
    then = "has failed" if verdict.state is State.FAILED else f"runs again{after}"
    note = (
        f"raised by job {claim.id} of task {claim.task!r} in attempt {claim.attempts + 1}; the job "
        f"{then}. drain(raises=False) and advance(…, raises=False) go on after an error"
    )
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error
