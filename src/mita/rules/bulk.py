"""Bulk runs: which jobs they choose and change, at which rate, and how their counts are stored."""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from mita.model.bulk import ChosenJob
from mita.model.job import Job, State
from mita.model.outcome import Change, DeleteJob, RescheduleJob
from mita.model.time import Moment
from mita.model.view import JobFilter

from .claim_size import CALL_JOBS
from .flow import FLOW_TASKS
from .matching import matches
from .own_tasks import BULK_TASK
from .states import ALIVE, allowed

CHUNK_JOBS = CALL_JOBS  # ids that are stored together
TICK_S = 0.5  # between two batches of a run that has a rate
OWN_TASK_NAMES = FLOW_TASKS | {BULK_TASK}
REFUSED_ANSWER = "refused"  # arguments that do not fit a job
_COUNTED = re.compile(r"([0-9]+) ([a-z ]+)")


# ---------------------------------------------------------------- which jobs


def changeable(change: Change, want: JobFilter) -> frozenset[State]:
    """The states of the jobs that a bulk operation changes. Failed and cancelled jobs are
    rescheduled only if the filter asks for them."""
    is_open = want.shown is None and want.state is None and want.group is None
    if isinstance(change, RescheduleJob) and is_open:
        return ALIVE
    return allowed(change)


def left_out(change: Change, want: JobFilter) -> Collection[str]:
    """The tasks of Mita itself whose jobs a bulk operation leaves alone, unless the filter names
    them. A flow is changed through its steps, and deleted whole."""
    if want.task is not None:
        return ()
    return {BULK_TASK} if isinstance(change, DeleteJob) else OWN_TASK_NAMES


def chosen_job(job: Job, frozen: Moment) -> ChosenJob | None:
    """The job as a bulk run chooses it; None for a job that is newer than the choice, or that has
    ended after it. A bulk run never chooses one."""
    if job.task == BULK_TASK or (job.created if job.finished is None else job.finished) > frozen:
        return None
    return ChosenJob(job.id, job.state, job.token, job.finished, job.reschedules)


def still_chosen(job: Job, chosen: ChosenJob, change: Change, want: JobFilter, now: Moment) -> bool:
    """Whether a bulk run may change this job: it still matches, and it has not been changed since
    it was chosen, by the same run before a crash or by anyone else. A job that ended must have the
    same end. A waiting job may run by now, if the filter has no state."""
    if job.state not in changeable(change, want) or not matches(job, want, now):
        return False
    if chosen.finished is not None:
        same = job.state, job.token, job.finished
        return same == (chosen.state, chosen.token, chosen.finished)
    if job.finished is not None:
        return False
    return not isinstance(change, RescheduleJob) or job.reschedules == chosen.reschedules


# ---------------------------------------------------------------- at which rate


def tick_jobs(rate: float | None) -> int:
    """How many jobs are changed together: at a rate, as many as it allows in one tick."""
    if rate is None:
        return CALL_JOBS
    return max(1, min(CALL_JOBS, int(rate * TICK_S)))


# ---------------------------------------------------------------- what was done


class BulkCounts(NamedTuple):
    """How many jobs gave which answer, and why the first refused one was refused."""

    answers: dict[str, int]
    refusal: str = ""


def write_counts(counts: BulkCounts) -> str:
    """The counts as the message of a progress report: people can read it, and so can the run that
    goes on after a crash."""
    words = ", ".join(f"{n} {answer}" for answer, n in counts.answers.items())
    return f"{words}\n{counts.refusal}" if counts.refusal else words


def read_counts(message: str) -> BulkCounts:
    """The counts in the message of a progress report."""
    words, _, refusal = message.partition("\n")
    found = (_COUNTED.fullmatch(part) for part in words.split(", "))
    return BulkCounts({one[2]: int(one[1]) for one in found if one}, refusal)


def added(counts: BulkCounts, more: Mapping[str, int], refusal: str = "") -> BulkCounts:
    """The counts with some more answers."""
    answers = dict(counts.answers)
    for answer, n in more.items():
        answers[answer] = answers.get(answer, 0) + n
    return BulkCounts(answers, counts.refusal or refusal)


def bulk_note(id: str, reason: str) -> str:
    """What the timelines of the changed jobs say: the reason, and which run it was."""
    return f"{reason}; bulk run {id}" if reason else f"bulk run {id}"


def is_of_run(note: str, id: str) -> bool:
    """Whether this note was written by the bulk run with this id."""
    return note.endswith(f"bulk run {id}")
