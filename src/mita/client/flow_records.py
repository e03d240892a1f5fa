"""Flows and their steps as people see them."""

import asyncio
from collections.abc import Iterable, Mapping

from msgspec import Struct

from mita.flows.ended import place_of
from mita.flows.parts import FlowPart, parts_of, spec_of, steps_of
from mita.flows.patrol import find_steps
from mita.model.job import Job, State
from mita.model.record import DisplayState, FlowPage, FlowRecord, FlowStep
from mita.model.time import Moment
from mita.model.view import JobFilter
from mita.ports.store import Store
from mita.rules.claim_size import CALL_JOBS
from mita.rules.display import as_datetime, shown
from mita.rules.flow import FLOW_TASK, number_of, readable_told, step_id
from mita.rules.flow_plan import counter_groups, rows_of
from mita.rules.judge import first_line
from mita.rules.matching import stored_state
from mita.rules.states import ALIVE, TERMINAL

from .durable import values_of
from .filters import cursor, page_size
from .flow_reader import numbers_of

_MOST_COUNTERS = 30  # that are read to count the ended steps of one flow in a page


class _EndedSteps(Struct):
    """How many steps of a flow have ended, and how many of those failed. Not `exact`: there are
    more."""

    ended: int = 0
    failed: int = 0
    exact: bool = True


async def page_of_flows(store: Store, after: str | None, limit: int) -> FlowPage:
    """Flows, newest first, with ids below `after`. Raises `UsageError` if this is no id, or the
    `limit` is not from 1 to 1,000."""
    found = await store.page(JobFilter(task=FLOW_TASK), cursor(after), page_size(limit))
    now = await store.now()
    all = await asyncio.gather(*(_progress(store, job) for job in found.jobs))
    flows = [_record(job, now, one) for job, one in zip(found.jobs, all, strict=True)]
    return FlowPage(tuple(flows), found.after)


async def whole_flow(store: Store, id: str) -> FlowRecord | None:
    """A flow with all of its steps; None if there is none with this id."""
    [job] = await store.find([id])
    if job is None or job.task != FLOW_TASK:
        return None
    parts = await parts_of(store, id, spec_of(job))
    now = await store.now()
    steps = [step for part in parts for step in await _steps(store, part, now)]
    own = [step for step in steps if step.added_by is None]
    failed = sum(step.state is DisplayState.FAILED for step in own)
    ended = sum(step.state is None or stored_state(step.state) in TERMINAL for step in own)
    return _record(job, now, _EndedSteps(ended, failed), tuple(steps))


def _record(
    job: Job, now: Moment, progress: _EndedSteps, steps: tuple[FlowStep, ...] = ()
) -> FlowRecord:
    spec = spec_of(job)
    return FlowRecord(
        id=job.id,
        name=spec.name,
        state=DisplayState.RUNNING if job.state in ALIVE else shown(job, now),
        created=as_datetime(job.created),
        total=spec.steps,
        ended=progress.ended,
        failed=progress.failed,
        exact=progress.exact,
        finished=None if job.finished is None else as_datetime(job.finished),
        error=job.error,
        steps=steps,
    )


# ---------------------------------------------------------------- how far a flow is


async def _progress(store: Store, flow: Job) -> _EndedSteps:
    """How many steps have ended, as they have told the flow and its counters. Steps that did not
    succeed may have been retried since then, so they are read."""
    spec, progress = spec_of(flow), _EndedSteps()
    groups, top = counter_groups(spec.steps, spec.first_counter)
    dead: list[int] = []
    counters = [(0, top)]
    for number, members in counters:  # it grows
        told = readable_told(await values_of(store, step_id(flow.id, number)))
        for one in told.values():
            progress.ended += one.succeeded
            dead += [*one.failed, *one.cancelled]
        ended = {number_of(flow.id, sender) for sender in told}
        left = [(n, groups[n]) for n in members if n in groups and n not in ended]
        room = max(0, _MOST_COUNTERS - len(counters))
        progress.exact &= len(left) <= room
        counters += left[:room]
    progress.exact &= len(dead) <= CALL_JOBS
    for job in (await find_steps(store, flow.id, sorted(dead)[:CALL_JOBS])).values():
        state = State.CANCELLED if job is None else job.state
        progress.ended += state in TERMINAL
        progress.failed += state is State.FAILED
    return progress


# ---------------------------------------------------------------- its steps


async def _steps(store: Store, part: FlowPart, now: Moment) -> list[FlowStep]:
    """The steps of a flow, or of what was added to it. What each waits for are steps: jobs that
    gather others are replaced by those."""
    between = range(part.spec.steps + 1, part.spec.first_counter)
    gathered = _predecessors((await find_steps(store, part.flow, between)).items())
    steps: list[FlowStep] = []
    async for jobs in steps_of(store, part.flow, range(1, part.spec.steps + 1)):
        first = len(steps) + 1
        steps += [_step(part, number, job, now, gathered) for number, job in enumerate(jobs, first)]
    return steps


def _predecessors(jobs: Iterable[tuple[int, Job | None]]) -> dict[int, list[int]]:
    """The numbers of the steps that each of these jobs gathers, directly or through others."""
    found: dict[int, list[int]] = {}
    for number, job in jobs:  # a job gathers jobs with lower numbers
        place = None if job is None else place_of(job)
        numbers = () if place is None else numbers_of(place)
        found[number] = [member for n in numbers for member in found.get(n, [n])]
    return found


def _step(
    part: FlowPart, number: int, job: Job | None, now: Moment, gathered: Mapping[int, list[int]]
) -> FlowStep:
    if job is None:
        id = step_id(part.flow, number)
        return FlowStep(number, id, "", "", None, added_by=part.adder)
    place = place_of(job)
    after = () if place is None else place.predecessors
    if after and after[-1][1] > part.spec.steps and place is not None:
        after = rows_of({one for n in numbers_of(place) for one in gathered.get(n, [n])})
    return FlowStep(
        number,
        job.id,
        job.task,
        job.queue,
        shown(job, now),
        None if job.started is None else as_datetime(job.started),
        None if job.finished is None else as_datetime(job.finished),
        first_line(job.error or ""),
        after,
        place is not None and place.always,
        part.adder,
        job.blocked_at,
    )
