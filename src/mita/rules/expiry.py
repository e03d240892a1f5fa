"""Whether a claim may still start, and how long its run may take: `expires` and `deadline`.

Everything is counted on the store's clock. A worker knows that clock from the time of its claim,
plus the seconds that it has spent since then."""

import math

from mita.model.ending import Expired, PastDeadline
from mita.model.job import Claim, Job
from mita.model.time import SECOND, Moment, Wait

from .options import options_of


def refusal(claim: Claim, spent: float = 0.0) -> Expired | PastDeadline | None:
    """Returns why the handler of this claim must not start any more; None: it may start. `spent` is
    how many seconds ago the job was claimed."""
    options = options_of(claim.options)
    if options.expires is None and options.deadline is None:
        return None
    now = claim.at + milliseconds(spent)
    end = expiry_of(claim)
    if end is not None and now > end:
        return Expired()
    end = deadline_of(claim)
    return PastDeadline() if end is not None and now >= end else None


def expiry_of(job: Claim | Job) -> Moment | None:
    """Returns the last point in time at which the job may start; None: at any time.

    It belongs to the present due time. While no worker knows the task, a job becomes due again and
    again, so then the time of the first such claim counts. A job that was interrupted after its
    start does not expire: it has started in time."""
    expires = options_of(job.options).expires
    if expires is None or job.interruptions:
        return None
    due = job.due if job.stranded is None else min(job.due, job.stranded)
    return due + milliseconds(expires)


def deadline_of(job: Claim | Job) -> Moment | None:
    """Returns when all runs of the job must be over; None: it has no deadline.

    It is counted from the first due time. No run ends with a due time behind the deadline, so a job
    that is due behind it was moved there by a person, who wants it to run: then the deadline is
    counted from that due time. The same holds for a job that is due later than at first although
    its counters are at zero: it was retried."""
    options = options_of(job.options)
    if options.deadline is None:
        return None
    length, first = milliseconds(options.deadline), options.when.moment(job.created)
    retried = job.due > first and job.stranded is None and not _counted(job)
    return (job.due if retried or job.due >= first + length else first) + length


def seconds_left(claim: Claim, spent: float = 0.0) -> float | None:
    """Returns how many seconds a run that starts now may take: until its timeout or its deadline,
    whichever comes first; None: there is no limit. `spent` is how many seconds ago the job was
    claimed."""
    timeout, end = options_of(claim.options).timeout, deadline_of(claim)
    if end is None:
        return timeout
    left = max(0.0, (end - claim.at) / SECOND - spent)
    return left if timeout is None else min(timeout, left)


def milliseconds(seconds: float) -> Wait:
    """Returns seconds as whole milliseconds, rounded up: nothing starts a little too late. Digits
    behind the microsecond are noise of binary fractions."""
    return math.ceil(round(seconds * SECOND, 3))


def _counted(job: Claim | Job) -> int:
    return job.attempts + job.reschedules + job.busy + job.interruptions + job.crashes
