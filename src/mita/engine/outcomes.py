"""From an error that a handler raised to the ending of its run."""

import linecache
import logging
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any

import msgspec
from msgspec.structs import replace

from mita.errors import JobCancelled, JobFailed, LeaseLost, Rejected, StoreAway
from mita.model.ending import (
    STORE_AWAY,
    Ending,
    Interrupted,
    Raised,
    Rescheduled,
    ResourceUnavailable,
    Suspended,
    TimedOut,
)
from mita.model.job import Claim
from mita.model.time import LONGEST, SECOND
from mita.rules.options import options_of
from mita.rules.text import writable
from mita.tasks import Abort, Reschedule, Suspend, Task, Unavailable

log = logging.getLogger("mita.worker")

MOST_ERROR_CHARACTERS = 8000  # of an error's text
MOST_HEAD_CHARACTERS = 2000  # of its type and message
INNERMOST_FRAMES = 12  # of one error
MOST_CAUSES = 4  # errors in a chain of causes


def to_ending(error: BaseException, task: Task[Any, Any], claim: Claim) -> Ending:
    """Returns the ending of a run whose handler raised `error`."""
    match error:
        case Suspend():
            return Suspended(error.when, error.waits)
        case BaseExceptionGroup() if (suspend := _suspend_in(error)) is not None:
            return Suspended(suspend.when, suspend.waits)
        case Reschedule():
            return moved(error, task, claim)
        case Unavailable():
            return ResourceUnavailable(error.when, "" if is_secret(task, claim) else error.reason)
        case Abort() | Rejected():
            # the store would reject the same from another run
            return Raised(error_text(error, task, claim), final=True)
        case JobFailed(is_lasting=True) | JobCancelled(is_lasting=True):
            # the child that failed is the same in another run
            return Raised(error_text(error, task, claim), final=True)
        case LeaseLost():
            return Interrupted(True, "its lease expired")
        case StoreAway():
            return Interrupted(True, STORE_AWAY)
    if isinstance(error, task.final):
        return Raised(error_text(error, task, claim), final=True)
    return Raised(error_text(error, task, claim), wait=_own_wait(task, claim, error))


def raised_where(
    ending: Ending, error: BaseException, failure: tuple[BaseException, str] | None
) -> Ending:
    """Returns the ending of a failed run; if a provider or middleware raised the error, its first
    line says which."""
    if not isinstance(ending, Raised) or failure is None or failure[0] is not error:
        return ending
    head, *rest = ending.error.split("\n")
    text = "\n".join([f"{head} (raised by {failure[1]})", *rest])
    return replace(ending, error=text[:MOST_ERROR_CHARACTERS])


def _suspend_in(group: BaseExceptionGroup[BaseException]) -> Suspend | None:
    """The first suspension in a group, if there is nothing else in it: a task group collects what
    its tasks raise."""
    suspends, others = group.split(Suspend)
    if suspends is None or others is not None:
        return None
    first: BaseException = suspends
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first if isinstance(first, Suspend) else None


def moved(asked: Reschedule, task: Task[Any, Any], claim: Claim) -> Ending:
    """Returns the ending of a run whose handler returned or raised a Reschedule."""
    return Rescheduled(asked.when, "" if is_secret(task, claim) else asked.reason)


def late(ending: Ending, timeout: float) -> Ending:
    """Returns the ending of a run that went on past its timeout. A Reschedule, Unavailable or
    Abort of the handler stands, and so does a sleep or a wait. A result or another error comes too
    late."""
    match ending:
        case Rescheduled() | Suspended() | ResourceUnavailable() | Raised(final=True):
            return ending
    return TimedOut(timeout)


def error_text(error: BaseException, task: Task[Any, Any], claim: Claim) -> str:
    """The error's text; of a secret task, only what kind of error it was and where."""
    return withheld(error) if is_secret(task, claim) else describe(error)


def is_secret(task: Task[Any, Any], claim: Claim) -> bool:
    """Whether the task is secret in the code of today, or was when the job was enqueued."""
    return bool(task.secret or options_of(claim.options).secret)


def _own_wait(task: Task[Any, Any], claim: Claim, error: BaseException) -> int | None:
    """Returns what the task's own backoff function says; None if the job has its own retry, or if
    the function fails: then the usual delay applies."""
    retry = task.retry
    if isinstance(retry.wait, msgspec.UnsetType) or options_of(claim.options).retry != replace(
        retry, wait=msgspec.UNSET
    ):
        return None
    try:
        return min(max(0, round(retry.wait(claim.attempts + 1, error) * SECOND)), LONGEST)
    except BaseException:  # user code may raise anything
        trace = not is_secret(task, claim)  # its chain would include the handler's error
        log.error(
            "the backoff function of task %s failed; the usual wait is taken",
            claim.task,
            exc_info=trace,
        )
        return None


def describe(error: BaseException) -> str:
    """Returns the type and message of an error on the first line, then where it happened and what
    caused it. Never the values of variables."""
    if error.__cause__ is None and error.__context__ is None:  # most errors
        return writable(_described(error)[:MOST_ERROR_CHARACTERS])
    texts = [_described(each) for each in islice(_chain(error), MOST_CAUSES)]
    return writable("\ncaused by ".join(texts)[:MOST_ERROR_CHARACTERS])


def withheld(error: BaseException) -> str:
    """Returns the type of an error and where it happened, without lines of source code: a line that
    raises may contain the message."""
    head = f"{_named(type(error))} (text withheld: task is secret)"
    text = "\n".join([head, *_frames(error.__traceback__, source=False)])
    return writable(text[:MOST_ERROR_CHARACTERS])


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _described(error: BaseException) -> str:
    head = f"{_named(type(error))}: {_text(error)}".rstrip(": ")
    return "\n".join([head[:MOST_HEAD_CHARACTERS], *_frames(error.__traceback__)])


def _named(kind: type[BaseException]) -> str:
    """The type with its module, because two libraries may have a `TimeoutError`. Built-in types
    have no module, and ours are named after `mita`."""
    module = kind.__module__
    if module == "builtins":
        return kind.__qualname__
    return f"{'mita' if module.startswith('mita.') else module}.{kind.__qualname__}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as reason:  # noqa: BLE001
        # the text of an error is user code, and may raise too
        return f"(its text cannot be had: {_named(type(reason))})"


def _frames(trace: TracebackType | None, *, source: bool = True) -> list[str]:
    """The innermost frames, without those of Mita. The traceback module would check the age of
    every source file, and take ten times as long as the job."""
    frames = []
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename not in _OURS:
            frames.append(_frame(code, trace.tb_lineno, source))
        trace = trace.tb_next
    return frames[-INNERMOST_FRAMES:]


@lru_cache(maxsize=256)  # jobs that fail mostly fail in the same lines
def _frame(code: CodeType, number: int, source: bool) -> str:
    """The text of a frame of `code` at the line with this number."""
    line = linecache.getline(code.co_filename, number).strip() if source else ""
    text = f'  File "{code.co_filename}", line {number}, in {code.co_qualname}\n    {line}'
    return text.rstrip()


_OURS = {
    str(Path(__file__).with_name(name))
    for name in ("run.py", "injected.py", "generators.py", "loop_host.py", "shared_values.py")
}
