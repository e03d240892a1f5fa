"""Runs that continue when their worker stops: what becomes of their jobs, and what the log says."""

import logging
import time
from collections.abc import Collection, Mapping

from mita.model.ending import Ending, Interrupted
from mita.model.outcome import Settlement
from mita.rules.judge import Retention, judge

from .execution import Execution
from .job_log import extras
from .run import stopped
from .run_context import Stop

log = logging.getLogger("mita.worker")


def ending(execution: Execution) -> Ending:
    """Returns the ending of a run that its worker left behind."""
    return stopped(execution) if execution.stop is Stop.TIMED_OUT else Interrupted(started=True)


def settlements(held: Collection[Execution], keep: Retention) -> list[Settlement]:
    """Returns the settlements of these runs. Any thread may call it: it only reads."""
    return [
        Settlement(one.claim, judge(one.claim, ending(one), keep, 0.5, spent=one.spent))
        for one in list(held)
        if one.stop is not Stop.LOST
    ]


def warn(execution: Execution, what: str) -> None:
    """Log a warning about a run that continues."""
    claim = execution.claim
    extra = extras(claim, "abandoned", time.monotonic() - execution.since)
    log.warning("job %s of %s %s", claim.id, claim.task, what, extra=extra)


def described(held: Collection[Execution]) -> list[str]:
    """Returns a text for each run whose handler has started."""
    now = time.monotonic()
    return [
        f"job {one.claim.id} of {one.claim.task} ({now - one.since:.0f} s)"
        for one in list(held)
        if one.started
    ]


def described_on_threads(running: Mapping[str, Execution]) -> list[str]:
    """Returns a text for each run that is on a thread."""
    runs = sorted(running.items())
    return [f"job {one.claim.id} of {one.claim.task} on thread {name}" for name, one in runs]
