"""From what user code raised to how the run ended."""

import traceback
from functools import lru_cache
from typing import Any

import msgspec

from mita.model.outcome import Ending, Moved, Raised, Refused
from mita.model.policy import JobOptions, Retry
from mita.model.time import SECOND
from mita.tasks import Abort, Reschedule, Task, Unavailable

LONGEST_ERROR = 8000  # characters of an error's text that are kept, its end being the interesting part

_decode_options = msgspec.msgpack.Decoder(JobOptions).decode


@lru_cache(maxsize=4096)
def options_of(packed: bytes) -> JobOptions:
    """The settings stored with a job. Nearly all jobs share a few, so nearly none is decoded. What cannot be read is taken
    as the defaults: a job is never lost over its settings."""
    try:
        return _decode_options(packed) if packed else JobOptions()
    except (msgspec.MsgspecError, ValueError):
        return JobOptions()


def ending_of(error: BaseException, task: Task[Any, Any], attempt: int) -> Ending:
    """`attempt` is 1 for a run without failures before it."""
    match error:
        case Reschedule():
            return Moved(error.when, error.reason)
        case Unavailable():
            return Refused(error.when, error.reason)
        case Abort():
            return Raised(describe(error), final=True)
    if isinstance(error, task.final):
        return Raised(describe(error), final=True)
    return Raised(describe(error), wait=_own_wait(task.retry, attempt, error))


def _own_wait(retry: Retry, attempt: int, error: BaseException) -> int | None:
    """What the task's own backoff function says; its mistakes must not cost the job more than its own backoff."""
    if isinstance(retry.wait, msgspec.UnsetType):
        return None
    try:
        return max(0, round(retry.wait(attempt, error) * SECOND))
    except Exception:  # noqa: BLE001 - it is user code
        return None


def describe(error: BaseException) -> str:
    """Type and message on the first line, then where it happened. Never the values of variables."""
    head = f"{type(error).__qualname__}: {error}".rstrip(": ")
    frames = traceback.format_exception(type(error), error, error.__traceback__)
    trace = "".join(frames)
    if len(trace) > LONGEST_ERROR:
        trace = f"…{trace[-LONGEST_ERROR:]}"
    return f"{head[:LONGEST_ERROR]}\n{trace}".rstrip()
