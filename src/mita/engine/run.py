"""The only place that calls user code, and therefore the only one that catches everything."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from mita import traces
from mita.errors import UsageError
from mita.model.outcome import Ending, Interrupted, Lost, Raised, Returned, Stopped, TimedOut, Unreadable
from mita.rules.options import options_of
from mita.tasks import Job, Reschedule

from .endings import ending_of, moved, told
from .execution import Execution, Stop

_STOPPED: dict[Stop, Ending] = {
    Stop.CANCELLED: Stopped(),
    Stop.LOST: Lost(),
    Stop.SHUTDOWN: Interrupted(started=True),
}


def _stopped(execution: Execution) -> Ending | None:
    return None if execution.stop is None else _STOPPED[execution.stop]


async def run_async(execution: Execution) -> Ending:
    """A coroutine handler, in the task and context of its own that the caller made for it."""
    if execution.home.tracer is None:
        ending = await _prepared(execution)
    else:
        with traces.running(execution.home.tracer, execution.claim) as span:
            ending = _traced(span, execution, await _prepared(execution))
    if execution.reports is not None:
        await execution.close_reports()
    return ending


def run_sync(execution: Execution) -> Ending:
    """A plain function, on whatever thread this is called."""
    if execution.home.tracer is None:
        ending = _run_sync(execution)
    else:
        with traces.running(execution.home.tracer, execution.claim) as span:
            ending = _traced(span, execution, _run_sync(execution))
    if execution.reports is not None:
        with suppress(RuntimeError):  # the loop is closed: the worker is gone, and its job somebody else's
            execution.call(execution.close_reports())
    return ending


def _traced(span: Any, execution: Execution, ending: Ending) -> Ending:
    traces.too_late(span) if execution.settled else traces.ended(span, ending)
    return ending


def _prepared(execution: Execution) -> Coroutine[Any, Any, Ending]:
    """No more coroutines around the handler than it needs: each costs as much as a whole step of the way here."""
    task, claim = execution.task, execution.claim
    if (stopped := _stopped(execution)) is not None:
        return _over(stopped)
    try:
        args, kwargs = task.arguments.unpack(claim.payload)
    except UsageError as error:
        return _over(Unreadable(told(error, task, claim)))
    if task.wants_job:
        args = (Job(claim, execution), *args)
    timeout = options_of(claim.options).timeout
    if timeout is None:
        return _call(execution, task.fn, args, kwargs)
    return _within(timeout, _call(execution, task.fn, args, kwargs))


async def _over(ending: Ending) -> Ending:
    return ending


async def _within(timeout: float, run: Coroutine[Any, Any, Ending]) -> Ending:
    try:
        async with asyncio.timeout(timeout):
            return await run
    except TimeoutError:
        return TimedOut(timeout)


async def _call(execution: Execution, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Ending:
    try:
        return _returned(execution, await fn(*args, **kwargs))
    except asyncio.CancelledError as error:
        if (stopped := _stopped(execution)) is not None:
            return stopped
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise  # the time-out, which the caller knows about
        return Raised(told(error, execution.task, execution.claim))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - chaos becomes a value here, and only here
        return ending_of(error, execution.task, execution.claim)


def _run_sync(execution: Execution) -> Ending:
    task, claim = execution.task, execution.claim
    if (stopped := _stopped(execution)) is not None:
        return stopped
    try:
        args, kwargs = task.arguments.unpack(claim.payload)
    except UsageError as error:
        return Unreadable(told(error, task, claim))
    if task.wants_job:
        args = (Job(claim, execution), *args)
    try:
        return _returned(execution, task.fn(*args, **kwargs))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
        if (stopped := _stopped(execution)) is not None:
            return stopped  # it was told to stop, and stopping by an error is one way to obey
        return ending_of(error, task, claim)


def _returned(execution: Execution, value: Any) -> Ending:
    task, claim = execution.task, execution.claim
    if isinstance(value, Reschedule):
        return moved(value, task, claim)
    try:
        return Returned(task.arguments.pack_result(value))
    except UsageError as error:
        return Raised(told(error, task, claim), final=True)  # another run would give the same, and do its work again
