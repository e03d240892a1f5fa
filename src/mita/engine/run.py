"""The only module that calls user code, and therefore the only one that catches everything."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import Any, TypeAlias

import msgspec

from mita import traces
from mita.errors import UsageError
from mita.model.ending import (
    STORE_AWAY,
    Ending,
    Interrupted,
    Lost,
    Raised,
    Returned,
    Stopped,
    TimedOut,
    Unreadable,
)
from mita.ports.ids import new_id
from mita.rules.expiry import refusal, seconds_left
from mita.rules.flow import addition_id
from mita.rules.options import PLAIN_OPTIONS, may_come_too_late, options_of
from mita.tasks import Job, Reschedule, Suspend
from mita.tasks.added import AddedDraft

from .execution import Execution
from .injected import call_injected
from .outcomes import error_text, late, moved, raised_where, to_ending
from .run_context import Stop

log = logging.getLogger("mita.worker")

_STOPPED: dict[Stop, Ending] = {
    Stop.CANCELLED: Stopped(),
    Stop.LOST: Lost(),
    Stop.SHUTDOWN: Interrupted(started=True),
    Stop.STORE_AWAY: Interrupted(True, STORE_AWAY),
}
_NOTHING = Returned(msgspec.msgpack.encode(None))  # what most handlers return


# runs a handler anywhere, and returns how it ended
Body: TypeAlias = Callable[[Execution], Coroutine[Any, Any, Ending]]
# is called with the ending of a run
Done: TypeAlias = Callable[[Execution, Ending], None]


class _NotRunError(Exception):
    """The handler was not called; `ending` says how its run ended."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending


def task_maker(loop: asyncio.AbstractEventLoop) -> Callable[..., asyncio.Task[Any]]:
    """Returns what makes a task of a coroutine, with a `name` and a `context`. Without a task
    factory it is the class itself, which takes a third of the time of `loop.create_task`."""
    if loop.get_task_factory() is None:
        return partial(asyncio.Task, loop=loop)

    def make(coro: Coroutine[Any, Any, Any], *, name: str, context: Context) -> asyncio.Task[Any]:
        # a factory need not know the parameter `context`, but a task copies the current one
        return context.run(partial(loop.create_task, coro, name=name))

    return make


async def run_async(execution: Execution, done: Done | None = None) -> Ending:
    """Run an async handler, in the task and context that the caller made for it. Returns how it
    ended, and calls `done` with it. There are as few coroutines and calls around the handler as
    possible: every job pays for each of them."""
    execution.started = True
    options = options_of(execution.claim.options)
    timeout = options.timeout
    if options.deadline is not None:
        timeout = seconds_left(execution.claim, execution.spent)
    try:
        if timeout is None and execution.context.tracer is None:
            ending = _returned(
                execution, await _call(execution)
            )  # the same as `_run_async`, without a call
        else:
            ending = await run_limited(execution, timeout, _run_async)
    except BaseException as error:  # noqa: BLE001 - chaos becomes a value here, and only here
        ending = broken(execution, error)
    if execution.reports is not None:
        await execution.close_reports()
    if done is not None:
        done(execution, ending)
    return ending


def run_sync(execution: Execution) -> Ending:
    """Run a sync handler on a thread that is not the main one. Returns how it ended. A job that
    came too late while it waited for the thread is not run."""
    claim = execution.claim
    if claim.options != PLAIN_OPTIONS and may_come_too_late(claim.options):
        why = refusal(claim, execution.spent)
        if why is not None:
            return why
        execution.begun = True
    try:
        if execution.context.tracer is None:
            ending = _run_sync(execution)
        else:
            with traces.running(
                execution.context.tracer, execution.claim, execution.after
            ) as execution.span:
                ending = _traced(execution, _run_sync(execution))
    except BaseException as error:  # noqa: BLE001
        # an error of the tracer: without an ending the job would run for ever
        ending = Raised(error_text(error, execution.task, execution.claim))
    if execution.reports is not None:
        try:
            execution.call(execution.close_reports())
        except Exception as error:  # noqa: BLE001
            # the worker's event loop has ended; the ending of the run is known
            log.debug("the last progress of job %s was not written: %r", execution.claim.id, error)
    return ending


def _traced(execution: Execution, ending: Ending) -> Ending:
    span = execution.span
    traces.too_late(span) if execution.settled else traces.ended(span, ending)
    return ending


async def run_limited(execution: Execution, timeout: float | None, body: Body) -> Ending:
    """Run `body` within its timeout, if it has one, and in a span of its own, if runs are
    traced."""
    run = body(execution) if timeout is None else _within(timeout, execution, body)
    if execution.context.tracer is None:
        return await run
    with traces.running(
        execution.context.tracer, execution.claim, execution.after
    ) as execution.span:
        return _traced(execution, await run)


async def _within(timeout: float, execution: Execution, body: Body) -> Ending:
    timer = execution.context.loop.call_later(timeout, execution.halt, Stop.TIMED_OUT)
    try:
        ending = await body(execution)
    finally:
        timer.cancel()
    return late(ending, timeout) if execution.stop is Stop.TIMED_OUT else ending


async def _run_async(execution: Execution) -> Ending:
    try:
        return _returned(execution, await _call(execution))
    except BaseException as error:  # noqa: BLE001 - as above
        return broken(execution, error)


def _run_sync(execution: Execution) -> Ending:
    try:
        ending = _returned(execution, _call(execution))
    except _NotRunError as error:
        return error.ending
    except BaseException as error:  # noqa: BLE001 - as above; no Ctrl-C reaches this thread
        ending = _failed(execution, error)
    return late(ending, _timeout(execution)) if execution.stop is Stop.TIMED_OUT else ending


def _call(execution: Execution) -> Any:
    """Call the handler. Returns its value, or the coroutine of an async handler."""
    task, claim = execution.task, execution.claim
    if execution.stop is not None:
        raise _NotRunError(stopped(execution))
    try:
        args, kwargs = task.arguments.unpack(claim.payload)
    except UsageError as error:
        raise _NotRunError(Unreadable(error_text(error, task, claim))) from error
    if not task.is_plain:
        if task.injection is not None:
            return call_injected(execution, task.injection, args, kwargs)
        args = (Job(claim, execution), *args)
    return task.fn(*args, **kwargs) if kwargs else task.fn(*args)


def broken(execution: Execution, error: BaseException) -> Ending:
    """Returns the ending of a run whose coroutine raised `error`. Every error becomes an ending, or
    its job would run for ever. An error that did not come from the handler is raised again."""
    match error:
        case asyncio.CancelledError():
            return _cancelled(execution, error)
        case _NotRunError():
            return error.ending
        case KeyboardInterrupt() if _may_be_ctrl_c():
            raise error
        case GeneratorExit() if not _is_running(execution.context.loop):
            raise error
    return _failed(execution, error)


def _failed(execution: Execution, error: BaseException) -> Ending:
    ending = to_ending(error, execution.task, execution.claim)
    if execution.injected is not None:
        ending = raised_where(ending, error, execution.injected.failure)
    if execution.stop is not None and isinstance(ending, Raised) and not ending.final:
        # it was asked to stop, and an error is one way to stop
        return stopped(execution)
    if isinstance(ending, Raised):
        execution.error = error
    return ending


def _may_be_ctrl_c() -> bool:
    """Whether Python itself may have raised a KeyboardInterrupt in the main thread, by its own
    signal handler or by that of `asyncio.run`. The signal handler of `mita worker` raises nothing,
    so there a KeyboardInterrupt comes from the job's handler."""
    if threading.current_thread() is not threading.main_thread():
        return False
    on_signal = signal.getsignal(signal.SIGINT)
    return on_signal is signal.default_int_handler or isinstance(on_signal, partial)


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this code is called by that loop. If not, a GeneratorExit means that a closed loop
    and its unfinished coroutines are being deleted."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _cancelled(execution: Execution, error: asyncio.CancelledError) -> Ending:
    """The ending of a run that was cancelled. If the worker did not stop it, something in the
    handler cancelled it, which is an error of the handler."""
    if execution.stop is not None:
        return stopped(execution)
    execution.error = error
    return Raised(error_text(error, execution.task, execution.claim))


def stopped(execution: Execution) -> Ending:
    """Returns the ending of a run that was asked to stop and did."""
    if execution.stop is None or execution.stop is Stop.TIMED_OUT:
        return TimedOut(_timeout(execution))
    return _STOPPED[execution.stop]


def _timeout(execution: Execution) -> float:
    """The timeout in seconds, of a run that has one. A run that was stopped at its deadline may
    have none; its verdict names the deadline."""
    return options_of(execution.claim.options).timeout or 0.0


def _returned(execution: Execution, value: Any) -> Ending:
    task, claim = execution.task, execution.claim
    if execution.suspended is not None:
        return Raised(error_text(_caught(execution.suspended), task, claim), final=True)
    if execution.added is not None:
        return _with_steps(execution, execution.added, value)
    if value is None and task.arguments.results.none_fits:
        return _NOTHING
    if isinstance(value, Reschedule):
        return moved(value, task, claim)
    try:
        packed = task.arguments.pack_result(value)
        room = execution.context.room
        if room is not None and len(packed) + len(claim.payload) > room:
            raise _too_big(execution, len(packed), room)
    except UsageError as error:
        # another run would return the same
        return Raised(error_text(error, task, claim), final=True)
    return Returned(packed)


def _with_steps(execution: Execution, draft: AddedDraft, value: Any) -> Ending:
    """The ending of a run that has added steps to its flow."""
    execution.added = None
    ending = _returned(execution, value)
    if not isinstance(ending, Returned):
        return ending
    return Returned(ending.result, draft.added(addition_id(new_id()), ending.result))


def _caught(suspended: Suspend) -> UsageError:
    """The error for a handler that went on although its run had to end."""
    what = "sleeps" if suspended.waits is None else f"waits for the signal {suspended.waits!r}"
    return UsageError(
        f"the handler {what}, which ends its run, but it caught that and returned: do not catch "
        "BaseException around job.sleep or job.wait_for, and await them one by one"
    )


def _too_big(execution: Execution, size: int, room: int) -> UsageError:
    """The error for a result that does not fit into the store; it is found before the run is
    settled."""
    left = max(room - len(execution.claim.payload), 0)
    return UsageError(
        f"task {execution.task.name!r} returned a result of {size:,} bytes, and beside its "
        f"arguments this store has room for {left:,}; store it elsewhere and return its name"
    )
