"""Which jobs a filter matches."""

from mita.model.job import Job, State
from mita.model.time import Moment
from mita.model.view import JobFilter

from .failures import head
from .gates import keys_of


def shown_as(state: State, due: Moment, now: Moment) -> str:
    """Returns the name of a job's state for people: a `queued` job is `scheduled` before its due
    time, and `ready` after it."""
    if state is not State.QUEUED:
        return state.value
    return "scheduled" if due > now else "ready"


def matches(job: Job, want: JobFilter, now: Moment) -> bool:
    """Whether a job matches a filter."""
    pairs = (
        (want.queue, job.queue),
        (want.task, job.task),
        (want.state, job.state),
        (want.unique, job.unique),
        (want.repeat, job.repeat),
    )
    if any(wanted is not None and wanted != found for wanted, found in pairs):
        return False
    if want.resource is not None and want.resource not in keys_of(job.resource, job.gates):
        return False
    if want.scheduled is not None and shown_as(job.state, job.due, now) != (
        "scheduled" if want.scheduled else "ready"
    ):
        return False
    return want.error is None or want.error in head(job.error or "")
