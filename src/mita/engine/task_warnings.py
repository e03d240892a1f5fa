"""Warnings that name a task, and are not repeated for each of its jobs."""

import logging
import time

from mita.model.job import Claim
from mita.model.outcome import Verdict
from mita.rules.moves import SLOWED

from .job_log import extras

log = logging.getLogger("mita.worker")

SLOWED_INTERVAL_S = 60.0  # between two lines about a task whose jobs are slowed


class TaskWarnings:
    """The warnings of one worker."""

    def __init__(self) -> None:
        self._unknown: set[str] = set()
        self._slowed: dict[str, float] = {}  # when it was logged, by task

    def unknown(self, claim: Claim) -> None:
        """Log that this worker does not know the task. The job comes back every two seconds, so
        only the first one of each task is logged."""
        if claim.task in self._unknown:
            return
        self._unknown.add(claim.task)
        text = "job %s is left for other workers: this one does not know the task %s"
        log.warning(text, claim.id, claim.task, extra=extras(claim, "stranded"))

    def slowed(self, claim: Claim, verdict: Verdict) -> None:
        """If this verdict slows the job, log it, once per task and minute."""
        if not verdict.note.startswith(SLOWED):
            return
        now = time.monotonic()
        if now - self._slowed.get(claim.task, -SLOWED_INTERVAL_S) < SLOWED_INTERVAL_S:
            return
        self._slowed[claim.task] = now
        log.warning(
            "job %s of %s reschedules itself again and again without a delay: it is %s. Give "
            "Reschedule a delay, or limit it with max_reschedules=…",
            claim.id,
            claim.task,
            SLOWED,
            extra=extras(claim, "slowed"),
        )
