"""From the ending of a run to the verdict on its job."""

from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from mita.model.ending import (
    Died,
    Ending,
    Expired,
    Interrupted,
    Lost,
    PastDeadline,
    Raised,
    Rescheduled,
    ResourceUnavailable,
    Returned,
    Stopped,
    Suspended,
    TimedOut,
    Unknown,
    Unreadable,
)
from mita.model.job import Claim, State
from mita.model.outcome import BY_HANDLER, Counter, TimelineKind, Verdict
from mita.model.time import DAY, HOUR, MINUTE, SECOND, Wait, When

from .expiry import deadline_of, milliseconds
from .failures import failure
from .fingerprint import fingerprint
from .moves import SLOWED, slowed_delay
from .options import options_of
from .own_tasks import BULK_TASK
from .retry import backoff
from .sealed import why_closed
from .text import note


class Retention(Struct, frozen=True, kw_only=True):
    """How long terminal jobs are kept."""

    succeeded: Wait = HOUR
    failed: Wait = 30 * DAY


_Unsuccessful: TypeAlias = (
    Raised
    | TimedOut
    | Rescheduled
    | Suspended
    | ResourceUnavailable
    | Interrupted
    | Lost
    | Died
    | Stopped
    | Unreadable
)

# until a job of an unknown task is claimed again
STRANDED_WAIT_MS = 2 * SECOND
LOCKED_WAIT_MS = 30 * SECOND  # until a job whose key is missing is claimed again
STRANDED_GRACE = HOUR  # until it fails: a rolling deploy is over by then
_PAST_DEADLINE = "DeadlineExceeded"
_NOT_STARTED = "this run could not start before its deadline"


def judge(
    claim: Claim,
    ending: Ending,
    keep: Retention,
    roll: float,
    grace: Wait = STRANDED_GRACE,
    spent: float = 0.0,
) -> Verdict:
    """Returns what becomes of a job whose run ended like this. `roll` is a random number between 0
    and 1, for the jitter of a retry. `grace` is how long a job may wait for a worker that knows its
    task. `spent` is how many seconds ago the job was claimed."""
    if isinstance(ending, Returned):  # nearly every run; a `case` takes five times as long
        is_bulk = claim.task == BULK_TASK  # people want to see later what became of it
        return success(ending.result, keep.failed if is_bulk else keep.succeeded)
    if isinstance(ending, Unknown | Expired | PastDeadline):
        return _not_started(claim, ending, keep, grace)
    verdict = _after_run(claim, ending, keep, roll, spent)
    end = deadline_of(claim)
    if end is None:
        return verdict
    now = claim.at + milliseconds(spent)
    if isinstance(ending, TimedOut) and now >= end:
        why = "its run was stopped at its deadline"
        return _past_deadline(claim, replace(verdict, error=None), why, keep)
    if verdict.when is not None and (due := verdict.when.moment(now)) >= end:
        if verdict.waits is not None and now < end - 1:  # its signal may come in time
            return replace(verdict, when=When(end - 1 - now, end - 1))
        why = f"its next run, in {(due - now) / SECOND:g} s, would be behind its deadline"
        return _past_deadline(claim, verdict, why, keep)
    return verdict


def _after_run(
    claim: Claim, ending: _Unsuccessful, keep: Retention, roll: float, spent: float
) -> Verdict:
    """The table of endings that are no success. It knows nothing of deadlines."""
    match ending:
        case Raised(error, final, wait):
            return _failure(claim, error, keep, roll, final=final, wait=wait)
        case TimedOut(seconds):
            error = f"TimedOut: ran longer than its timeout of {seconds:g} s"
            return _failure(claim, error, keep, roll)
        case Rescheduled(when, reason):
            return _rescheduled(claim, when, reason or BY_HANDLER, keep, spent)
        case Suspended(when, waits):
            return _suspended(when, waits)
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
            return _dead(claim, error, keep, None)


def _not_started(
    claim: Claim, ending: Unknown | Expired | PastDeadline, keep: Retention, grace: Wait
) -> Verdict:
    """The verdict on a claim whose handler was not started."""
    match ending:
        case Unknown():
            return replace(_unknown(claim, keep, grace), unstarted=True)
        case Expired():
            return _expired(claim, keep)
        case PastDeadline():
            nothing = Verdict(state=State.FAILED, unstarted=True)
            return _past_deadline(claim, nothing, _NOT_STARTED, keep)


# back to the queue, as if it had never been claimed
RELEASE = Verdict(state=State.QUEUED, unstarted=True)


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


def _dead(claim: Claim, error: str, keep: Retention, counts: Counter | None) -> Verdict:
    secret = bool(options_of(claim.options).secret)
    return Verdict(
        state=State.FAILED,
        counts=counts,
        error=error,
        keep=keep.failed,
        event=TimelineKind.FAILED,
        note=_named(error),
        failure=failure(error),
        group=fingerprint(claim.task, error, secret=secret),
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
        return _dead(claim, error, keep, Counter.ATTEMPTS)
    wait = backoff(retry, n, roll) if wait is None else wait
    line = f"{_named(error)}; retry {n} of {retry.max_retries} in {wait / SECOND:g} s"
    return _back(When(wait), Counter.ATTEMPTS, TimelineKind.RETRIED, line, error)


def _crash(claim: Claim, keep: Retention, roll: float, error: str) -> Verdict:
    retry = options_of(claim.options).retry
    n = claim.crashes + 1
    error = f"{error} (crash {n} of this job)"
    if n > retry.max_crashes:
        return _dead(claim, error, keep, Counter.CRASHES)
    return _back(When(backoff(retry, n, roll)), Counter.CRASHES, TimelineKind.CRASHED, error, error)


def _rescheduled(claim: Claim, when: When, line: str, keep: Retention, spent: float) -> Verdict:
    most = options_of(claim.options).max_reschedules
    if most is not None and claim.reschedules >= most:
        error = (
            f"TooManyReschedules: its handler moved it again after {claim.reschedules} "
            f"reschedules, and max_reschedules is {most}"
        )
        return _dead(claim, error, keep, None)
    delay = slowed_delay(claim, when, spent)
    if delay is not None:
        when, line = When(delay), note(f"{SLOWED}; {line}")
    return _back(when, Counter.RESCHEDULES, TimelineKind.RESCHEDULED, line)


def _suspended(when: When, waits: str | None) -> Verdict:
    """A sleep or a wait counts as a reschedule, but never fails the job: `max_reschedules` is asked
    only when the handler raises `Reschedule`."""
    if waits is None:
        return _back(when, Counter.RESCHEDULES, TimelineKind.SLEEPING, "")
    line = note(f"for the signal {waits!r}")
    return replace(_back(when, Counter.RESCHEDULES, TimelineKind.WAITING, line), waits=waits)


def _expired(claim: Claim, keep: Retention) -> Verdict:
    expires = options_of(claim.options).expires or 0.0
    return Verdict(
        state=State.CANCELLED,
        keep=keep.failed,
        unstarted=True,
        event=TimelineKind.EXPIRED,
        note=f"not started within {expires:g} s of its due time",
    )


def _past_deadline(claim: Claim, verdict: Verdict, why: str, keep: Retention) -> Verdict:
    """The verdict instead of one that the deadline does not allow. The error of the run is kept
    below the reason."""
    deadline = options_of(claim.options).deadline or 0.0
    error = f"{_PAST_DEADLINE}: {why} of {deadline:g} s"
    if verdict.error is not None:
        error = f"{error}\ncaused by {verdict.error}"
    counts = verdict.counts if verdict.counts in (Counter.ATTEMPTS, Counter.CRASHES) else None
    dead = _dead(claim, error, keep, counts)
    return replace(dead, worker=verdict.worker, unstarted=verdict.unstarted)


def _unavailable(claim: Claim, when: When, line: str) -> Verdict:
    """All jobs with the key wait until then; a job without a key can only move itself."""
    if claim.resource is None and not claim.gates:
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
        error = f"UnknownTask: no worker has known {claim.task!r} for {minutes} min"
        return _dead(claim, error, keep, None)
    return Verdict(state=State.QUEUED, when=When(STRANDED_WAIT_MS), stranded=True)


def locked(payload: bytes) -> Verdict:
    """The verdict on a claim whose encrypted arguments cannot be opened here. The job waits for a
    worker that has the key; nothing is counted."""
    return Verdict(
        state=State.QUEUED,
        when=When(LOCKED_WAIT_MS),
        unstarted=True,
        event=TimelineKind.LOCKED,
        note=note(why_closed(payload)),
    )


def _named(error: str) -> str:
    """The first line of an error, as a timeline note."""
    return note(first_line(error))


def was_not_started(error: str | None) -> bool:
    """Whether this is the error of a claim whose deadline was over before its handler started."""
    return error is not None and error.startswith(f"{_PAST_DEADLINE}: {_NOT_STARTED}")


def first_line(text: str) -> str:
    """Returns the first line of a text."""
    return text.split("\n", 1)[0]
