"""From what user code raised to how the run ended."""

import logging
import traceback
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from mita.model.job import Claim
from mita.model.outcome import Ending, Moved, Raised, Refused
from mita.model.policy import JobOptions, Retry
from mita.model.time import SECOND
from mita.tasks import Abort, Reschedule, Task, Unavailable

log = logging.getLogger("mita.worker")

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


def ending_of(error: BaseException, task: Task[Any, Any], claim: Claim) -> Ending:
    """How a run ended that raised this."""
    match error:
        case Reschedule():
            return Moved(error.when, error.reason)
        case Unavailable():
            return Refused(error.when, error.reason)
        case Abort():
            return Raised(describe(error), final=True)
    if isinstance(error, task.final):
        return Raised(describe(error), final=True)
    return Raised(describe(error), wait=_own_wait(task.retry, claim, error))


def _own_wait(retry: Retry, claim: Claim, error: BaseException) -> int | None:
    """What the task's own backoff function says, unless the job has a retry of its own. Its mistakes must not cost the
    job more than the usual wait."""
    if isinstance(retry.wait, msgspec.UnsetType) or options_of(claim.options).retry != replace(retry, wait=msgspec.UNSET):
        return None
    try:
        return max(0, round(retry.wait(claim.attempts + 1, error) * SECOND))
    except Exception:
        log.exception("the backoff function of task %s failed; the usual wait is taken", claim.task)
        return None


def describe(error: BaseException) -> str:
    """Type and message on the first line, then where it happened. Never the values of variables."""
    head = f"{type(error).__qualname__}: {error}".rstrip(": ")
    frames = traceback.format_exception(type(error), error, error.__traceback__)
    trace = "".join(frames)
    if len(trace) > LONGEST_ERROR:
        trace = f"…{trace[-LONGEST_ERROR:]}"
    return f"{head[:LONGEST_ERROR]}\n{trace}".rstrip()
