"""Retrying steps of flows, with the steps that were cancelled because of them."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from mita.errors import UsageError
from mita.events.signals import Amended
from mita.model.flow import FlowPlace
from mita.model.job import Job
from mita.model.outcome import Answer, RetryJob, SignalJob
from mita.model.time import LATEST, NOW, When
from mita.ports.clock import wall_clock
from mita.ports.ids import new_id
from mita.ports.store import Store
from mita.rules.claim_size import CALL_JOBS
from mita.rules.durable import arrival_name, arrivals
from mita.rules.flow import patrol_wait, predecessors_of, receivers, step_id
from mita.rules.flow_plan import FlowSpec
from mita.rules.flow_retries import RETRIED, pack_numbers
from mita.rules.states import DEAD

from .arrivals import read_values
from .ended import is_step, place_of
from .parts import parts_of, steps_of


class DeadStep(Struct, frozen=True):
    """A failed or cancelled step that is to be retried."""

    id: str
    place: FlowPlace
    task: str
    queue: str


def dead_step(job: Job) -> DeadStep | None:
    """A failed or cancelled step; None for other jobs. A child job is in no flow."""
    place = place_of(job)
    if place is None or place.parent is not None or job.state not in DEAD:
        return None
    return DeadStep(job.id, place, job.task, job.queue)


async def check_predecessors(store: Store, step: DeadStep) -> None:
    """Raise `UsageError` if a predecessor of this step failed, was cancelled or is gone: the step
    would wait for ever."""
    told = await store.once_values(step.id)
    wanted = [step_id(step.place.flow, n) for n in predecessors_of(step.place)]
    ids = [id for id in wanted if arrival_name(id) not in told]
    for id, found in zip(ids, await store.find(ids) if ids else (), strict=True):
        if found is None or found.state in DEAD:
            how = "is gone" if found is None else f"is {found.state.value}"
            raise UsageError(
                f"step {step.id!r} waits for {id!r}, which {how}: retry that step, and this one "
                "comes back with it"
            )


async def retry_flow(
    store: Store, flow: str, spec: FlowSpec, note: str, reports: list[Amended]
) -> dict[str, Answer]:
    """Run the failed and cancelled steps of a flow again, also steps that were added to it. Returns
    the answer for each step, and adds what was done to `reports` for events."""
    answers: dict[str, Answer] = {}
    for part in await parts_of(store, flow, spec):
        dead: list[DeadStep] = []
        async for jobs in steps_of(store, part.flow, range(1, part.spec.first_counter)):
            dead += [one for job in jobs if job is not None and (one := dead_step(job)) is not None]
        if dead or part.flow == flow:
            change = RetryJob(NOW, note)
            found = await revive(store, part.flow, dead, change, reports)
            last = step_id(part.flow, part.spec.steps)  # behind it are jobs that gather others
            answers |= {id: answer for id, answer in found.items() if id <= last}
    return answers


async def revive(
    store: Store, flow: str, dead: Sequence[DeadStep], change: RetryJob, reports: list[Amended]
) -> dict[str, Answer]:
    """Bring these failed and cancelled steps of a flow back. The flow itself is first, so that it
    looks after what a process that dies in between leaves undone. Then come the steps that wait,
    and last steps that can start. Returns the answer for each step, and adds them to `reports` for
    events."""
    waits = await _which_wait(store, dead)
    for id in await _with_flows_above(store, flow):
        await store.amend([id], RetryJob(When(patrol_wait(0)), change.note))
    await note_steps(store, RETRIED, dead)  # before one of them can end
    waiting = [one.id for one in dead if one.id in waits]
    starting = [one.id for one in dead if one.id not in waits]
    answers: dict[str, Answer] = {}
    for ids, how in ((waiting, RetryJob(When(at=LATEST), change.note)), (starting, change)):
        for at in range(0, len(ids), CALL_JOBS):
            some = ids[at : at + CALL_JOBS]
            answers |= zip(some, await store.amend(some, how), strict=True)
    now = wall_clock()
    reports += [Amended(one.id, change, answers[one.id], now, one.task, one.queue) for one in dead]
    return answers


async def note_steps(store: Store, fact: str, steps: Iterable[DeadStep]) -> None:
    """Tell large flows that these steps of theirs were retried or are lost. A flow that has ended
    is not told."""
    numbers: dict[str, list[int]] = {}
    for step in steps:
        counter = step.place.counter
        if counter is not None and counter.first > 0:
            numbers.setdefault(step.place.flow, []).append(step.place.number)
    for flow, some in numbers.items():
        await store.amend([flow], SignalJob(f"{fact}{new_id()}", pack_numbers(some)))


async def _with_flows_above(store: Store, flow: str) -> list[str]:
    """The flow to which these steps were added, if they were, and to which that was, and last the
    one with this id."""
    ids = [flow]
    while is_step(ids[0]):  # the id of added steps is longer than that of a flow
        [job] = await store.find([ids[0]])
        place = None if job is None else place_of(job)
        if place is None or place.adder is None:
            break
        ids.insert(0, place.adder.flow)
    return ids


async def _which_wait(store: Store, dead: Sequence[DeadStep]) -> set[str]:
    """The ids of the steps that some predecessors have not told yet. A step waits if one of its
    predecessors is retried, too. Of the others, their arrivals are counted."""
    numbers = {one.place.number for one in dead}
    waits: set[str] = set()
    unsure: list[DeadStep] = []
    for one in dead:
        if not one.place.needs:
            continue
        if not one.place.always and not numbers.isdisjoint(predecessors_of(one.place)):
            waits.add(one.id)
        else:
            unsure.append(one)
    values = await read_values(store, [one.id for one in unsure])
    told = zip(unsure, map(arrivals, values), strict=True)
    waits.update(one.id for one, count in told if count < one.place.needs)
    return waits


async def downstream(store: Store, steps: Sequence[DeadStep]) -> list[DeadStep]:
    """These steps of one flow, and the cancelled ones that wait for them, directly or through
    others."""
    found = {one.id: one for one in steps}
    todo = list(steps)
    while todo:
        ids = dict.fromkeys(id for one in todo for id in _dependants(one.place))
        new, todo = [id for id in ids if id not in found], []
        for at in range(0, len(new), CALL_JOBS):
            jobs = await store.find(new[at : at + CALL_JOBS])
            todo += [one for job in jobs if job is not None and (one := dead_step(job)) is not None]
        found.update((one.id, one) for one in todo)
    return list(found.values())


def _dependants(place: FlowPlace) -> Iterable[str]:
    for to in place.dependants:
        if not to.always:
            yield from receivers(place.flow, to)
