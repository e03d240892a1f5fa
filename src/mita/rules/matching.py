"""Which jobs a filter matches."""

from mita.model.job import Job, State
from mita.model.record import DisplayState
from mita.model.time import LATEST, Moment
from mita.model.view import JobFilter

from .failures import head
from .gates import keys_of
from .options import options_of

# how queued jobs are shown
SHOWN_OF_QUEUED = (DisplayState.WAITING, DisplayState.SCHEDULED, DisplayState.READY)


def shown_as(state: State, due: Moment, now: Moment) -> DisplayState:
    """Returns the state of a job as people see it: a `queued` job is `scheduled` before its due
    time, and `ready` after it. It is `waiting` if it has no due time: then it waits for other jobs
    of its flow, or for a signal without a time-out, and is due at `LATEST`."""
    if state is not State.QUEUED:
        return DisplayState(state.value)
    if due <= now:
        return DisplayState.READY
    return DisplayState.WAITING if due == LATEST else DisplayState.SCHEDULED


def stored_state(shown: DisplayState) -> State:
    """Returns the stored state of a job that is shown like this."""
    return State.QUEUED if shown in SHOWN_OF_QUEUED else State(shown.value)


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
    if want.tag is not None and want.tag not in options_of(job.options).tags:
        return False
    if want.group is not None and not _is_in_group(job, want.group):
        return False
    if want.shown is not None and shown_as(job.state, job.due, now) != want.shown:
        return False
    return want.error is None or want.error in head(job.error or "")


def _is_in_group(job: Job, group: str) -> bool:
    return job.state is State.FAILED and (job.group or "") == group
