"""The events of flows. A flow is a job of the task `mita.flow`: its end is the end of the flow."""

from collections.abc import Iterable

import msgspec

from mita.model.event import EventBatch, Kind
from mita.model.job import Claim, Job, State
from mita.model.outcome import Settlement
from mita.model.time import SECOND, Moment
from mita.rules.flow import FLOW_TASK
from mita.rules.flow_plan import read_spec
from mita.rules.states import TERMINAL

from .signals import Amended, EndedFlow, FlowStarted


def flow_started(signal: FlowStarted) -> EventBatch:
    """The event of a flow that was enqueued."""
    return EventBatch(
        Kind.FLOW_STARTED,
        FLOW_TASK,
        signal.queue,
        signal.at,
        ids=[signal.id],
        count=signal.steps,
        name=signal.name,
    )


def flows_ended(settlements: Iterable[Settlement], at: Moment, worker: str) -> list[EventBatch]:
    """The events of the flows whose jobs ended with these settlements, which were written."""
    found: list[EventBatch] = []
    for one in settlements:
        state = State.CANCELLED if one.was_cancelled else one.verdict.state
        if state in TERMINAL and (flow := ended_flow(one.claim)) is not None:
            found.append(_ended(one.claim.id, one.claim.queue, flow, state, at, worker))
    return found


def flow_cancelled(signal: Amended, flow: EndedFlow) -> EventBatch:
    """The event of a flow whose job a person has cancelled."""
    return _ended(signal.id, signal.queue, flow, State.CANCELLED, signal.at, "")


def ended_flow(job: Claim | Job) -> EndedFlow | None:
    """What is known of the flow of this job; None if it is not the job of a flow, or cannot be
    read."""
    if job.task != FLOW_TASK:
        return None
    try:
        spec = read_spec(job.payload)
    except (msgspec.MsgspecError, ValueError):
        return None
    return EndedFlow(spec.name, spec.steps, job.created)


def _ended(
    id: str, queue: str, flow: EndedFlow, state: State, at: Moment, worker: str
) -> EventBatch:
    return EventBatch(
        Kind.FLOW_ENDED,
        FLOW_TASK,
        queue,
        at,
        worker,
        ids=[id],
        seconds=[max(0, at - flow.created) / SECOND],
        count=flow.steps,
        name=flow.name,
        state=state.value,
    )
