"""Jobs of flows that have ended, and the places of jobs in flows."""

from msgspec import Struct

from mita.model.flow import Addition, FlowPlace
from mita.model.job import Claim, Job, State
from mita.rules.judge import first_line
from mita.rules.options import options_of
from mita.rules.states import TERMINAL

LONGEST_PLAIN_ID_CHARACTERS = 32  # a step has the id of its flow, a point and a number


class EndedJob(Struct, frozen=True):
    """A job of a flow that has ended, or is about to. `addition` is what it has added to it. `span`
    is that of its last run, if known."""

    id: str
    place: FlowPlace
    task: str
    state: State
    result: bytes | None = None
    error: str = ""
    addition: Addition | None = None
    span: bytes = b""


def place_of(job: Claim | Job) -> FlowPlace | None:
    """The place of a job in a flow; None if it is in none."""
    return options_of(job.options).flow if is_step(job.id) else None


def is_step(id: str) -> bool:
    """Whether this may be the id of a step of a flow. Ids of most other jobs are shorter."""
    return len(id) > LONGEST_PLAIN_ID_CHARACTERS


def ended_job(job: Job) -> EndedJob | None:
    """A job of a flow that has ended, from its record; None if it is in no flow or has not
    ended."""
    place = place_of(job)
    if place is None or job.state not in TERMINAL:
        return None
    return EndedJob(job.id, place, job.task, job.state, job.result, first_line(job.error or ""))


def cancelled_job(job: Job) -> list[EndedJob]:
    """A job that was cancelled, by its record from before; empty if it is in no flow."""
    place = place_of(job)
    return [] if place is None else [EndedJob(job.id, place, job.task, State.CANCELLED)]


def reason_of(job: EndedJob) -> str:
    """Why the dependants of this job are cancelled."""
    if job.state is State.FAILED:
        return f"step {job.place.number} ({job.task}) failed: {job.error}"
    return f"step {job.place.number} ({job.task}) was cancelled"
