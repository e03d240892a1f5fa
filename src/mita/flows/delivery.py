"""Telling the dependants of a job how it ended."""

import asyncio
from collections.abc import Iterable

from msgspec.structs import replace

from mita.events.signals import Amended
from mita.model.ending import Returned
from mita.model.flow import AddedSteps, Addition, Arrival, Dependants, FlowPlace
from mita.model.job import Claim, State
from mita.model.outcome import Answer, RescheduleJob, SignalJob
from mita.model.time import NOW, SECOND, Wait, When
from mita.ports.store import Store
from mita.rules.durable import arrival_name, pending_waits, signal_name
from mita.rules.flow import (
    CHILD,
    GATHER_TASK,
    NO_RESULT,
    ONE_SUCCESS,
    UNREADABLE_VALUE,
    ChildOutcome,
    Told,
    added_signal,
    child_of_signal,
    child_signal,
    pack_child,
    pack_told,
    read_addition,
    read_child,
    read_told,
    receivers,
    step_id,
    succeeded_signal,
    told_by_step,
    told_of_addition,
    told_to_counter,
)

from .arrivals import PARALLEL_CALLS, arrive
from .cancels import cancel_dependants
from .ended import EndedJob
from .told_here import ToldHere

STORED = "stored"  # the sender of the arrival that says that the whole flow is stored
# Until a flow of many steps looks after one that was retried: each step that is retried moves that,
# so it looks once, after the last of them. The more steps it has, the longer it takes.
LARGE_FLOW_WAIT: Wait = SECOND
STEPS_READ_IN_1_MS = 10


# ---------------------------------------------------------------- before a job is settled


def arrivals_with_settlement(job: EndedJob) -> tuple[Arrival, ...]:
    """What a step that succeeds tells in the operation that settles it: its dependants, and at last
    its counter."""
    arrivals = _to_dependants(job)
    counter = job.place.counter
    if counter is not None:
        receiver = step_id(job.place.flow, counter.first)
        arrivals.append(Arrival(counter.queue, receiver, job.id, ONE_SUCCESS, counter.needs))
    return tuple(arrivals)


def _to_dependants(job: EndedJob, kept: bytes | None = None) -> list[Arrival]:
    """What a job that succeeds tells its dependants. The first of them also gets `kept`."""
    arrivals: list[Arrival] = []
    for to in job.place.dependants:
        told = _told(job, to)
        if kept is not None and not arrivals:
            first, *others = _arrivals(job, to, told)
            value = pack_told(replace(told, kept=kept))
            arrivals += (Arrival(first.queue, first.receiver, job.id, value, first.needs), *others)
        else:
            arrivals += _arrivals(job, to, told)
    return arrivals


def success_arrivals(job: EndedJob) -> list[Arrival]:
    """What a job that is about to succeed tells its dependants. The first of them also keeps its
    result, in case its worker dies before it is settled."""
    arrivals = _to_dependants(job, kept=job.result or NO_RESULT)
    return [*arrivals, *addition_arrivals(job.id, job.addition, job.span)]


def _told(job: EndedJob, to: Dependants) -> Told:
    told = told_by_step(job.place, to, job.task, job.state, job.result, job.error)
    return replace(told, spans=(job.span,)) if job.span else told


def _arrivals(job: EndedJob, to: Dependants, told: Told) -> list[Arrival]:
    value = pack_told(told)
    return [
        Arrival(to.queue, receiver, job.id, value, to.needs)
        for receiver in receivers(job.place.flow, to)
    ]


def addition_arrivals(adder: str, addition: Addition | None, span: bytes = b"") -> list[Arrival]:
    """What the steps that a job has added are told: that it has succeeded, and that all of them are
    stored. `span` is that of its run, if known."""
    if addition is None:
        return []
    value = pack_told(Told(spans=(span,) if span else ()))
    arrivals = [
        Arrival(to.queue, receiver, adder, value, to.needs)
        for to in addition.sources
        for receiver in receivers(addition.flow, to)
    ]
    return [*arrivals, Arrival(addition.queue, addition.flow, STORED, b"", addition.needs)]


async def told_before(store: Store, claim: Claim, place: FlowPlace) -> Returned | None:
    """What an earlier run of this job has returned, as it has told its first dependant, its parent,
    or with what it has added its counter; None if it has told nothing, or nothing that can be read.
    If it has, it succeeded, and its worker died before it was settled."""
    try:
        return await _told_before(store, claim, place)
    except UNREADABLE_VALUE:
        return None


async def _told_before(store: Store, claim: Claim, place: FlowPlace) -> Returned | None:
    result: bytes | None = None
    if place.parent is not None:
        values = await store.once_values(place.parent)
        outcome = values.get(signal_name(child_signal(claim.id)))
        result = None if outcome is None else read_child(outcome).result
    elif (addition := await addition_of(store, place)) is not None:
        return Returned(addition.result, AddedSteps(addition))
    elif place.dependants:
        values = await store.once_values(step_id(place.flow, place.dependants[0].first))
        value = values.get(arrival_name(claim.id))
        result = None if value is None else read_told(value).kept
    return None if result is None else Returned(result)


async def addition_of(store: Store, adder: FlowPlace) -> Addition | None:
    """What the step with this place has added to its flow, if it has told that. It tells its
    counter, or the flow itself if it was retried after its counter had ended."""
    if adder.counter is None:
        return None
    name = signal_name(added_signal(adder.number))
    for number in dict.fromkeys((adder.counter.first, 0)):
        values = await store.once_values(step_id(adder.flow, number))
        if name in values:
            return read_addition(values[name])
    return None


async def tell_parents(store: Store, jobs: Iterable[EndedJob]) -> None:
    """Tell the parents of these child jobs how they ended. What was told before stays."""
    children = [job for job in jobs if job.place.parent is not None]
    for at in range(0, len(children), PARALLEL_CALLS):
        some = children[at : at + PARALLEL_CALLS]
        await asyncio.gather(*(_tell_parent(store, job, job.place.parent or "") for job in some))


async def _tell_parent(store: Store, job: EndedJob, parent: str) -> None:
    result = job.result if job.state is State.SUCCEEDED else None
    outcome = ChildOutcome(job.state, result, job.error)
    value = pack_child(outcome)
    [answer] = await store.amend([parent], SignalJob(child_signal(job.id), value))
    if answer is Answer.TAKEN:  # it was retried, and the parent may wait for it again
        for wait in pending_waits(await store.once_values(parent)):
            if wait.name.startswith(CHILD) and child_of_signal(wait.name) == job.id:
                await store.amend([parent], SignalJob(wait.name, value))


# ---------------------------------------------------------------- after a job is settled


async def conclude(
    store: Store,
    ended: Iterable[EndedJob],
    keep: Wait,
    counted_before: list[EndedJob] | None = None,
    here: ToldHere | None = None,
) -> list[Amended]:
    """Tell everything that follows from the end of these jobs: their counters, their dependants,
    and the jobs that are cancelled because of it. `keep` is how long cancelled jobs are kept.
    Returns what was cancelled. It may be called again at any time: what is done stays done. Jobs of
    whose end their counters knew are added to `counted_before`. `here`, what this process has told,
    is given if the jobs that succeeded have told their dependants and parents before they were
    settled.

    The counters come last. A flow looks after the steps that its counters do not know, so it finds
    what a process that dies in here leaves undone."""
    todo, cancelled = list(ended), list[Amended]()
    seen = {job.id for job in todo}
    while todo:
        untold = [job for job in todo if here is None or job.state is not State.SUCCEEDED]
        await arrive(store, [arrival for job in untold for arrival in _after(job)])
        await tell_parents(store, untold)
        stopped = await cancel_dependants(store, todo, keep, cancelled, seen)
        known = await tell_counters(store, todo, here)
        if counted_before is not None:
            counted_before += known
        todo = stopped
    return cancelled


async def conclude_and_wake(
    store: Store, ended: Iterable[EndedJob], keep: Wait, here: ToldHere | None = None
) -> list[Amended]:
    """`conclude`, and let the flows look again whose counters knew of an end before: a step that
    was retried has ended another time."""
    again: list[EndedJob] = []
    cancelled = await conclude(store, ended, keep, again, here)
    if again:
        await tell_retried(store, again)
    return cancelled


async def tell_retried(store: Store, jobs: Iterable[EndedJob]) -> None:
    """Tell the flows of these jobs which of them have succeeded since they were counted. Their
    records may be gone before the flow ends. A large flow is not told, because it could not keep
    all of them, and looks a little later, because that takes longer."""
    flows: dict[str, When] = {}
    for job in jobs:
        adder = job.place.adder
        flow, counter = job.place.flow, job.place.counter
        succeeded = [job.id] if job.state is State.SUCCEEDED else []
        if adder is not None:
            flow, counter = adder.flow, adder.counter
            succeeded.append(step_id(flow, adder.number))
        is_large = counter is not None and counter.first > 0
        for id in () if is_large else succeeded:
            await store.amend([flow], SignalJob(succeeded_signal(id), NO_RESULT))
        # the number of a counter is behind those of all steps, so it tells how many there are
        size = 0 if counter is None else counter.first
        flows[flow] = When(LARGE_FLOW_WAIT + size // STEPS_READ_IN_1_MS) if is_large else NOW
    for flow, when in flows.items():
        await store.amend([flow], RescheduleJob(when, "one of its steps was retried"))


def _after(job: EndedJob) -> Iterable[Arrival]:
    """What a job that was settled tells. A success has told its dependants before, but a handler
    that settled its job itself has not."""
    for to in job.place.dependants:
        if to.always or job.state is State.SUCCEEDED:
            yield from _arrivals(job, to, _told(job, to))
    yield from addition_arrivals(job.id, job.addition, job.span)


async def tell_counters(
    store: Store, jobs: Iterable[EndedJob], here: ToldHere | None = None
) -> list[EndedJob]:
    """Tell the counters of flows that these steps have ended, and remember that `here`. Returns the
    steps of whose end their counters knew."""
    counted = [(job, arrival) for job in jobs for arrival in await counter_arrivals(store, job)]
    answers = await arrive(store, [arrival for _, arrival in counted])
    known: list[EndedJob] = []
    for (job, arrival), answer in zip(counted, answers, strict=True):
        if answer is not Answer.DONE:
            known.append(job)
        elif here is not None:
            here.remember(arrival)
    return known


async def counter_arrivals(store: Store, job: EndedJob) -> list[Arrival]:
    """What the counter of this job is told. A step that has added others is counted when they have
    ended, and only for the addition that its counter knows: a run that died may have left another
    one."""
    place = job.place
    if job.task == GATHER_TASK and job.state is State.SUCCEEDED:
        return []  # it has told before it was settled
    if place.adder is not None and place.adder.counter is not None:
        addition = await addition_of(store, place.adder)
        if addition is None or addition.flow != place.flow:
            return []
        flow, to = place.adder.flow, place.adder.counter
        sender = step_id(flow, place.adder.number)
        told = told_of_addition(place.flow, job.state)
    elif place.counter is not None and job.addition is None:
        flow, to, sender = place.flow, place.counter, job.id
        told = told_to_counter(place.number, job.state)
    else:
        return []
    value = pack_told(told)
    return [
        Arrival(to.queue, receiver, sender, value, to.needs) for receiver in receivers(flow, to)
    ]
