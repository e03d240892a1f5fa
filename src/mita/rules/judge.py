"""From the ending of a run to the verdict on its job."""

from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from mita.model.job import Claim, State
from mita.model.outcome import (
    BY_HANDLER,
    Counter,
    Died,
    Ending,
    Interrupted,
    Lost,
    Raised,
    Rescheduled,
    ResourceUnavailable,
    Returned,
    Stopped,
    TimedOut,
    TimelineKind,
    Unknown,
    Unreadable,
    Verdict,
)
from mita.model.time import DAY, HOUR, MINUTE, SECOND, Wait, When

from .failures import failure
from .options import options_of
from .retry import backoff
from .text import note


class Retention(Struct, frozen=True, kw_only=True):
    """How long terminal jobs are kept."""

    succeeded: Wait = HOUR
    failed: Wait = 30 * DAY


# until a job of an unknown task is claimed again
STRANDED_WAIT_MS = 2 * SECOND
STRANDED_GRACE = HOUR  # until it fails: a rolling deploy is over by then


def judge(
    claim: Claim,
    ending: Ending,
    keep: Retention,
    roll: float,
    grace: Wait = STRANDED_GRACE,
) -> Verdict:
    """Returns what becomes of a job whose run ended like this: the whole table of endings. `roll`
    is a random number between 0 and 1, for the jitter of a retry. `grace` is how long a job may
    wait for a worker that knows its task."""
    if isinstance(ending, Returned):  # nearly every run; a `case` takes five times as long
        return success(ending.result, keep.succeeded)
    match ending:
        case Raised(error, final, wait):
            return _failure(claim, error, keep, roll, final=final, wait=wait)
        case TimedOut(seconds):
            error = f"TimedOut: ran longer than its timeout of {seconds:g} s"
            return _failure(claim, error, keep, roll)
        case Rescheduled(when, reason):
            return _back(when, Counter.RESCHEDULES, TimelineKind.RESCHEDULED, reason or BY_HANDLER)
        case ResourceUnavailable(when, reason):
            return _unavailable(claim, when, reason or "its resource is not available")
        case Interrupted(started, reason):
            return _interrupted(reason) if started else RELEASE
        case Lost():
            error = "WorkerLost: the lease expired; the worker died or was cut off"
            return replace(_crash(claim, keep, roll, error), worker=claim.lost)
        case Died(reason):
            return _crash(claim, keep, roll, f"ProcessDied: {reason}")
        case Stopped():
            return Verdict(
                state=State.CANCELLED,
                keep=keep.failed,
                event=TimelineKind.CANCELLED,
                note="while it ran",
            )
        case Unreadable(error):
            return _dead(error, keep, None)
        case Unknown():
            return _unknown(claim, keep, grace)


RELEASE = Verdict(state=State.QUEUED)  # back to the queue, as if it had never been claimed


@lru_cache(maxsize=1)
def success(result: bytes, keep: Wait) -> Verdict:
    """The verdict on a run that returned `result`. Most handlers return the same as the one before,
    nothing, so the latest verdict is kept: jobs that share one are settled and counted together."""
    return Verdict(state=State.SUCCEEDED, result=result, keep=keep, is_plain_success=True)


def _back(
    when: When | None,
    counts: Counter | None,
    event: TimelineKind,
    line: str,
    error: str | None = None,
) -> Verdict:
    kept = "" if error is None else failure(error)
    return Verdict(
        state=State.QUEUED,
        when=when,
        counts=counts,
        event=event,
        note=line,
        error=error,
        failure=kept,
    )


def _interrupted(reason: str) -> Verdict:
    return _back(None, Counter.INTERRUPTIONS, TimelineKind.INTERRUPTED, reason)


def _dead(error: str, keep: Retention, counts: Counter | None) -> Verdict:
    return Verdict(
        state=State.FAILED,
        counts=counts,
        error=error,
        keep=keep.failed,
        event=TimelineKind.FAILED,
        note=_named(error),
        failure=failure(error),
    )


def _failure(
    claim: Claim,
    error: str,
    keep: Retention,
    roll: float,
    *,
    final: bool = False,
    wait: Wait | None = None,
) -> Verdict:
    retry = options_of(claim.options).retry
    n = claim.attempts + 1
    if final or n > retry.max_retries:
        return _dead(error, keep, Counter.ATTEMPTS)
    wait = backoff(retry, n, roll) if wait is None else wait
    line = f"{_named(error)}; retry {n} of {retry.max_retries} in {wait / SECOND:g} s"
    return _back(When(wait), Counter.ATTEMPTS, TimelineKind.RETRIED, line, error)


def _crash(claim: Claim, keep: Retention, roll: float, error: str) -> Verdict:
    retry = options_of(claim.options).retry
    n = claim.crashes + 1
    error = f"{error} (crash {n} of this job)"
    if n > retry.max_crashes:
        return _dead(error, keep, Counter.CRASHES)
    return _back(When(backoff(retry, n, roll)), Counter.CRASHES, TimelineKind.CRASHED, error, error)


def _unavailable(claim: Claim, when: When, line: str) -> Verdict:
    """All jobs with the key wait until then; a job without a key can only move itself."""
    if claim.resource is None:
        return _back(when, Counter.BUSY, TimelineKind.UNAVAILABLE, line)
    return Verdict(
        state=State.BLOCKED,
        hold=when,
        counts=Counter.BUSY,
        event=TimelineKind.UNAVAILABLE,
        note=line,
    )


def _unknown(claim: Claim, keep: Retention, grace: Wait) -> Verdict:
    if claim.stranded is not None and claim.at - claim.stranded >= grace:
        minutes = (claim.at - claim.stranded) // MINUTE
        return _dead(
            f"UnknownTask: no worker has known {claim.task!r} for {minutes} min", keep, None
        )
    return Verdict(state=State.QUEUED, when=When(STRANDED_WAIT_MS), stranded=True)


def _named(error: str) -> str:
    """The first line of an error, as a timeline note."""
    return note(first_line(error))


def first_line(text: str) -> str:
    """Returns the first line of a text."""
    return text.split("\n", 1)[0]
