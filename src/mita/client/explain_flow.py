"""The evidence about a job of a flow, for `explain`: which steps it waits for, and why the nearest
of them do not end; or because of which step it was cancelled."""

from collections.abc import Awaitable, Callable, Iterable, Mapping

from mita.flows.ended import place_of
from mita.model.flow import FlowPlace
from mita.model.job import Job, State
from mita.model.record import DisplayState
from mita.model.time import LATEST, Moment
from mita.ports.store import Store
from mita.rules.display import shown
from mita.rules.explain.evidence import FlowCause, FlowWait, NearStep, Reason
from mita.rules.flow import (
    ADDED_TASK,
    FLOW_TASK,
    GATHER_TASK,
    number_of,
    readable_additions,
    readable_told,
    step_id,
)
from mita.rules.judge import first_line
from mita.rules.states import DEAD, TERMINAL

from .flow_reader import FlowReader, FoundStep, Predecessors, numbers_of

NEAR_STEPS = 3  # whose reasons are given
_MOST_LEVELS = 10_000  # of steps that wait for steps; the calls to the store end before
# Which steps are named first: steps that need a person, before steps that go on by themselves.
_ORDER = (
    DisplayState.FAILED,
    DisplayState.CANCELLED,
    DisplayState.BLOCKED,
    DisplayState.WAITING,
    DisplayState.SCHEDULED,
    DisplayState.READY,
    DisplayState.RUNNING,
    DisplayState.SUCCEEDED,
)

Explain = Callable[[Job], Awaitable[Reason]]


def is_flow(job: Job) -> bool:
    """Whether this is the job of a flow, or of steps that were added to one."""
    return job.task in (FLOW_TASK, ADDED_TASK)


def waits_for_steps(job: Job) -> bool:
    """Whether this job may wait for steps of its flow."""
    if is_flow(job):
        return job.state not in TERMINAL
    place = place_of(job)
    return job.state is State.QUEUED and job.due == LATEST and bool(place and place.needs)


async def flow_wait(
    store: Store, job: Job, values: Mapping[str, bytes], now: Moment, explain: Explain
) -> FlowWait | None:
    """The steps that a job of a flow waits for; None if it waits for none. `values` are its once
    values, and `explain` returns why another job does not run."""
    place = place_of(job)
    if is_flow(job):
        reader, told = FlowReader(store, job.id), _told(job.id, values)
        before = await reader.all_steps(told)
    elif place is None:
        return None
    else:
        reader = FlowReader(store, place.flow)
        before = await _before(reader, place, _told(place.flow, values))
    if not before.pending:
        return None
    spec, own = await reader.spec(), await reader.own_job()
    added = {number: one.flow for number, one in readable_additions(values).items()}
    near = await _nearest(reader, before.pending, now)
    return FlowWait(
        "" if spec is None else spec.name,
        before.total,
        tuple([_named(reader, one, now) for one in _ranked(before.pending, now)[:NEAR_STEPS]]),
        len(before.pending),
        before.is_exact,
        tuple([await _near(reader, one, now, explain, added) for one in near[:NEAR_STEPS]]),
        None if own is None or own.state in TERMINAL else own.due,
    )


def _told(flow: str, values: Mapping[str, bytes]) -> set[int]:
    """The numbers of the jobs of this flow that have told a job that they ended."""
    return {number_of(flow, sender) for sender in readable_told(values) if sender.startswith(flow)}


async def _before(reader: FlowReader, place: FlowPlace, told: set[int] | None) -> Predecessors:
    """What a step waits for. A step that was added and waits for no other waits for its adder."""
    if place.predecessors:
        return await reader.predecessors(place, told)
    own = await reader.own_job()
    adder = None if own is None else place_of(own)
    if adder is None or adder.adder is None:
        return Predecessors(0, ())
    number = adder.adder.number
    found = await FlowReader(reader.store, adder.adder.flow).jobs([number])
    step = FoundStep(number, found.get(number))
    return Predecessors(1, () if step.has_ended else (step,))


async def _nearest(
    reader: FlowReader, pending: Iterable[FoundStep], now: Moment
) -> list[FoundStep]:
    """The nearest steps that do not wait for others, among these and those that they wait for. If
    no call to the store is left before they are found, these are steps that wait."""
    level = {step.number: step for step in pending}
    for _ in range(_MOST_LEVELS):
        further: dict[int, FoundStep] = {}
        ends: list[FoundStep] = []
        waiting: list[FoundStep] = []
        for step in level.values():
            (waiting if step.job and waits_for_steps(step.job) else ends).append(step)
        if ends:
            return _ranked(ends, now)
        for step in waiting[:NEAR_STEPS]:
            place = None if step.job is None else place_of(step.job)
            before = None if place is None else await _before(reader, place, None)
            if before is None or not before.pending:
                ends.append(step)  # it waits for a signal, or the rest cannot be read
            else:
                further |= {one.number: one for one in before.pending}
        if ends:
            return ends
        level = further
    return list(level.values())


def _ranked(steps: Iterable[FoundStep], now: Moment) -> list[FoundStep]:
    def rank(step: FoundStep) -> tuple[int, int]:
        if step.job is None:
            return -1, step.number
        last = len(_ORDER) if waits_for_steps(step.job) else 0
        return max(last, _ORDER.index(shown(step.job, now))), step.number

    return sorted(steps, key=rank)


def _named(reader: FlowReader, step: FoundStep, now: Moment) -> NearStep:
    job = step.job
    if job is None:
        return NearStep(step.number, step_id(reader.flow, step.number), "", None)
    return NearStep(step.number, job.id, job.task, shown(job, now))


async def _near(
    reader: FlowReader,
    step: FoundStep,
    now: Moment,
    explain: Explain,
    added: Mapping[int, str],
) -> NearStep:
    """A step, with the reason why it does not run, or with what it has added to the flow."""
    named = _named(reader, step, now)
    if step.job is None:
        return named
    if step.has_ended:
        return NearStep(*_fields(named), None, added.get(step.number))
    if not step.job.reschedules and waits_for_steps(step.job):
        return named
    return NearStep(*_fields(named), await explain(step.job))


def _fields(step: NearStep) -> tuple[int, str, str, DisplayState | None]:
    return step.number, step.id, step.task, step.state


# ---------------------------------------------------------------- because of which step it ended


async def cause_of_cancel(store: Store, job: Job) -> FlowCause | None:
    """Because of which step a step was cancelled: the first that failed or was cancelled among
    those that it waited for, directly or through others. None if there is none."""
    place = place_of(job)
    if place is None or place.always or job.state is not State.CANCELLED:
        return None
    reader, cause = FlowReader(store, place.flow), None
    for _ in range(_MOST_LEVELS):
        dead = await _dead_before(reader, place)
        if not dead:
            return cause
        number, first = dead[0]
        failed = sum(one.state is State.FAILED for _, one in dead)
        error = first_line(first.error or "")
        cause = FlowCause(place.flow, first.id, number, first.task, first.state, error, failed)
        further = place_of(first)
        if first.state is State.FAILED or further is None or further.always:
            return cause
        place = further
    return cause


async def _dead_before(reader: FlowReader, place: FlowPlace) -> list[tuple[int, Job]]:
    """The predecessors that failed or were cancelled, and their numbers: first the failed ones.
    Jobs that gather others are replaced by those."""
    dead: list[tuple[int, Job]] = []
    numbers = list(numbers_of(place))
    while numbers:
        found = (await reader.jobs(numbers)).items()
        numbers = []
        for number, job in found:
            if job is None or job.state not in DEAD:
                continue
            inside = place_of(job) if job.task == GATHER_TASK else None
            if inside is None:
                dead.append((number, job))
            else:
                numbers += numbers_of(inside)
    return sorted(dead, key=lambda pair: (pair[1].state is not State.FAILED, pair[0]))


async def failed_steps(
    store: Store, job: Job, values: Mapping[str, bytes]
) -> tuple[FlowCause, ...]:
    """Some of the steps because of which a flow failed."""
    numbers = sorted(n for told in readable_told(values).values() for n in told.failed)
    found = await FlowReader(store, job.id).jobs(numbers[:NEAR_STEPS])
    return tuple(
        FlowCause(job.id, one.id, n, one.task, one.state, first_line(one.error or ""), len(numbers))
        for n, one in found.items()
        if one is not None and one.state is State.FAILED
    )
