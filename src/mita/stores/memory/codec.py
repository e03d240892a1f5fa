"""`NewJob` to `Job`, and `Job` to `Claim`. Both follow from the fields of the structs."""

from operator import attrgetter

from mita.model.job import Claim, Job, NewJob, State
from mita.model.time import Moment
from mita.stores.shared.record import CLAIM, NEW

_new_values = attrgetter(*NEW)
_claim_values = attrgetter(*CLAIM)


def to_job(new: NewJob, now: Moment) -> Job:
    """The job that is stored for a new job."""
    fields = dict(zip(NEW, _new_values(new), strict=True))
    return Job(state=State.QUEUED, due=new.when.moment(now), created=now, **fields)


def to_claim(job: Job, now: Moment) -> Claim:
    """The claim of a job that was claimed now."""
    return Claim(at=now, **dict(zip(CLAIM, _claim_values(job), strict=True)))
