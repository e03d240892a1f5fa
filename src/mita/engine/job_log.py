"""Log lines about jobs."""

import logging

from mita.model.job import Claim, State
from mita.model.outcome import Verdict
from mita.printable import printable_lines
from mita.rules.judge import first_line
from mita.rules.options import options_of

from .execution import Execution
from .outcomes import is_secret

log = logging.getLogger("mita.worker")


def extras(claim: Claim, event: str, seconds: float = 0.0) -> dict[str, object]:
    """Returns the fields of a log line beside its text: never arguments or results."""
    where = {
        "job": claim.id,
        "task": claim.task,
        "queue": claim.queue,
        "attempt": claim.attempts + 1,
    }
    return {**where, "event": event, "seconds": round(seconds, 6)}


def log_success(claim: Claim, level: int, seconds: float) -> None:
    """Log a run that succeeded."""
    log.log(
        level,
        "job %s of %s succeeded in %.3g s",
        claim.id,
        claim.task,
        seconds,
        extra=extras(claim, "succeeded", seconds),
    )


def log_lost_lease(claim: Claim, seconds: float) -> None:
    """Log a run that lost its lease."""
    log.warning(
        "job %s of %s lost its lease",
        claim.id,
        claim.task,
        extra=extras(claim, "lease lost", seconds),
    )


def log_overrun(claim: Claim, seconds: float) -> None:
    """Log a handler that still runs after its timeout or deadline, on a thread."""
    timeout, deadline = options_of(claim.options).timeout, options_of(claim.options).deadline
    is_timeout = deadline is None or (timeout is not None and seconds >= timeout)
    text = (
        "job %s of %s ran longer than its %s of %g s; its thread cannot be stopped, so the job "
        "keeps its slot and its resource key until the handler ends. The handler can check "
        "job.cancelled"
    )
    what = "timeout" if is_timeout else "deadline"
    length = timeout if is_timeout else deadline
    log.warning(text, claim.id, claim.task, what, length, extra=extras(claim, "timed out", seconds))


def log_verdict(
    claim: Claim, verdict: Verdict, seconds: float, execution: Execution | None = None
) -> None:
    """Log a verdict that has a timeline entry. A failure is logged with its traceback, unless its
    task is secret; the traceback of a handler process is only known as text."""
    error: BaseException | None = None
    if execution is not None:
        # its traceback refers to the execution: a cycle
        error, execution.error = execution.error, None
    level = logging.ERROR if verdict.state is State.FAILED else logging.INFO
    if not verdict.event or not log.isEnabledFor(level):
        return
    what = f"{verdict.event}: {first_line(verdict.note)}" if verdict.note else verdict.event
    args, extra = (claim.id, claim.task, what), extras(claim, verdict.event, seconds)
    shows = execution is not None and not is_secret(execution.task, claim)
    exc_info = None if error is None or not shows else (type(error), error, error.__traceback__)
    record = log.makeRecord(
        log.name, level, __file__, 0, "job %s of %s %s", args, exc_info, "log_verdict", extra
    )
    if shows and verdict.error is not None and "\n" in verdict.error:
        # limited in length, unlike what formatters make of `exc_info`
        record.exc_text = printable_lines(verdict.error)
    log.handle(record)
