"""Log lines about jobs."""

import logging

from mita.model.job import Claim, State
from mita.model.outcome import Verdict
from mita.rules.judge import first_line

log = logging.getLogger("mita.worker")


def extras(claim: Claim, event: str, seconds: float = 0.0) -> dict[str, object]:
    """What a log line says beside its text: never arguments or results."""
    where = {"job": claim.id, "task": claim.task, "queue": claim.queue, "attempt": claim.attempts + 1}
    return {**where, "event": event, "seconds": round(seconds, 6)}


def report(claim: Claim, verdict: Verdict, seconds: float) -> None:
    """One line for each ending that is worth one."""
    level = logging.ERROR if verdict.state is State.FAILED else logging.INFO
    if verdict.event and log.isEnabledFor(level):
        what = f"{verdict.event}: {first_line(verdict.note)}" if verdict.note else verdict.event
        log.log(level, "job %s of %s %s", claim.id, claim.task, what, extra=extras(claim, verdict.event, seconds))
