"""A flow and everything that was added to it."""

from collections.abc import AsyncIterator, Sequence

from msgspec import Struct

from mita.model.job import Job
from mita.ports.store import Store
from mita.rules.claim_size import CALL_JOBS
from mita.rules.flow import (
    FLOW_TASKS,
    GATHER_TASK,
    UNREADABLE_VALUE,
    readable_additions,
    readable_told,
    step_id,
)
from mita.rules.flow_plan import FlowSpec, counter_groups, read_spec

from .arrivals import read_values
from .ended import place_of
from .patrol import find_all

ROOT_TASKS = FLOW_TASKS - {GATHER_TASK}  # of the jobs that know all of a flow


class FlowPart(Struct, frozen=True):
    """A flow, or steps that were added to one by the step with the id `adder`."""

    flow: str
    spec: FlowSpec
    adder: str | None = None


def spec_of(job: Job) -> FlowSpec:
    """What the job of a flow knows. A flow that cannot be read has no steps."""
    try:
        return read_spec(job.payload)
    except UNREADABLE_VALUE:
        return FlowSpec("unreadable", 0, 1, 0)


async def parts_of(store: Store, flow: str, spec: FlowSpec) -> list[FlowPart]:
    """The flow, first, and all steps that were added to it, and to those."""
    found = [FlowPart(flow, spec)]
    for part in found:  # it grows
        for job in await find_all(store, await _added_to(store, part)):
            place = None if job is None else place_of(job)
            if job is not None and place is not None and place.adder is not None:
                adder = step_id(place.adder.flow, place.adder.number)
                found.append(FlowPart(job.id, spec_of(job), adder))
    return found


async def _added_to(store: Store, part: FlowPart) -> list[str]:
    """The ids of what was added to this part. Its counters know it; counters that have ended have
    told the flow itself what did not succeed."""
    counters, _ = counter_groups(part.spec.steps, part.spec.first_counter)
    ids: list[str] = []
    holders = [step_id(part.flow, number) for number in (0, *counters)]
    for values in await read_values(store, holders):
        ids += [addition.flow for addition in readable_additions(values).values()]
        ids += [id for told in readable_told(values).values() for id in told.additions]
    return list(dict.fromkeys(ids))


async def find_spec(store: Store, flow: str) -> FlowSpec | None:
    """What the job of this flow, or of these added steps, knows; None if it is not in the store."""
    [job] = await store.find([flow])
    return None if job is None or job.task not in ROOT_TASKS else spec_of(job)


async def steps_of(
    store: Store, flow: str, numbers: Sequence[int]
) -> AsyncIterator[list[Job | None]]:
    """The jobs of a flow with these numbers, as many at a time as a store returns."""
    for at in range(0, len(numbers), CALL_JOBS):
        yield await store.find([step_id(flow, n) for n in numbers[at : at + CALL_JOBS]])
