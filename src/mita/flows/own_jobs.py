"""The jobs of a flow that run no code of the user: the job of the flow itself, and jobs that gather
what others tell. Any worker of their queue runs them, between its other work."""

from collections.abc import Awaitable, Callable, Iterable

import msgspec
from msgspec import Struct

from mita.errors import Rejected
from mita.events import Emit
from mita.events.signals import ignore_signal
from mita.model.ending import Ending, Raised, Returned, Stopped, Suspended, Unreadable
from mita.model.flow import Arrival, FlowPlace
from mita.model.job import Claim, Job, State
from mita.model.outcome import RescheduleJob
from mita.model.time import NOW, Wait, When
from mita.ports.store import Store
from mita.rules.durable import ARRIVAL
from mita.rules.flow import (
    ADDED_TASK,
    FLOW_TASK,
    GATHER_TASK,
    UNREADABLE_VALUE,
    Told,
    pack_told,
    patrol_wait,
    receivers,
    step_id,
    succeeded_since,
    together,
    told_by_sender,
)
from mita.rules.flow_plan import read_spec
from mita.rules.flow_retries import succeeded_if_gone
from mita.rules.options import options_of
from mita.rules.readable import unreadable
from mita.rules.states import TERMINAL

from .additions import stands
from .arrivals import Tell, arrive
from .delivery import STORED
from .ended import place_of
from .patrol import Patrol, find_all, find_steps, state_of
from .runs import TOO_EARLY_WAIT

OWN_JOB_SUCCEEDED = Returned(msgspec.msgpack.encode(None))


class OwnTools(Struct):
    """What own jobs work with. `keep` is how long cancelled jobs are kept; they are emitted. `tell`
    tells arrivals; without it each job calls the store by itself."""

    store: Store
    keep: Wait
    emit: Emit = ignore_signal
    tell: Tell | None = None


async def run_own_job(tools: OwnTools, claim: Claim) -> Ending:
    """Run a job of one of the tasks in `FLOW_TASKS`. What cannot be read fails it."""
    place = options_of(claim.options).flow
    if place is None:
        return Unreadable(unreadable("the place of this job in its flow cannot be read"))
    try:
        return await _RUN[claim.task](tools, claim, place)
    except UNREADABLE_VALUE as error:
        return Unreadable(unreadable(f"what this flow knows of its steps cannot be read: {error}"))
    except Rejected as error:
        return Raised(
            "Rejected: the results of these steps are too large for the store together "
            f"({error}); store it elsewhere and return its name",
            final=True,
        )


# ---------------------------------------------------------------- gathering


async def _gather(tools: OwnTools, claim: Claim, place: FlowPlace) -> Ending:
    """Tell in one what others have told."""
    told = told_by_sender(await tools.store.once_values(claim.id))
    if len(told) < place.needs:
        return Suspended(When(TOO_EARLY_WAIT))
    whole = together(told.values())
    arrivals = [
        Arrival(to.queue, receiver, claim.id, pack_told(whole), to.needs)
        for to in (*place.dependants, *((place.counter,) if place.counter else ()))
        for receiver in receivers(place.flow, to)
    ]
    await (arrive(tools.store, arrivals) if tools.tell is None else tools.tell(arrivals))
    return OWN_JOB_SUCCEEDED


# ---------------------------------------------------------------- the flow itself


async def _flow(tools: OwnTools, claim: Claim, place: FlowPlace) -> Ending:
    """End with the flow, or look after it."""
    store, spec = tools.store, read_spec(claim.payload)
    values = await store.once_values(claim.id)
    told = told_by_sender(values)
    patrol = Patrol(store, claim, spec, tools.keep, tools.emit)
    if len(told) >= spec.needs:
        return await _end(store, claim, patrol, values, together(told.values()))
    is_stored = spec.in_transaction or f"{ARRIVAL}{STORED}" in values
    if place.adder is not None and not is_stored:
        if not await stands(store, claim.id, spec, place.adder):
            return OWN_JOB_SUCCEEDED
        return _later(claim)
    rest = await patrol.run(values, is_stored=is_stored)
    if rest is not None:
        await patrol.end_counters()
        return await _end(store, claim, patrol, values, together([*told.values(), rest]))
    return _later(claim)


def _later(claim: Claim) -> Ending:
    """Look after the flow again, but not now."""
    steps = read_spec(claim.payload).steps
    return Suspended(When(patrol_wait(claim.at - claim.created, steps)))


async def look_again(store: Store, claim: Claim) -> None:
    """After the job of a flow was put back: start it at once if its last step has told it
    meanwhile. An arrival at a running job does not do that."""
    told = told_by_sender(await store.once_values(claim.id))
    if len(told) >= read_spec(claim.payload).needs:
        await store.amend([claim.id], RescheduleJob(NOW, "its steps have ended"))


async def _end(
    store: Store, claim: Claim, patrol: Patrol, values: dict[str, bytes], told: Told
) -> Ending:
    """The ending of a flow whose steps have all ended. A step that was retried since then counts as
    it is now. `values` are the once values of the flow."""
    since = succeeded_since(values)
    numbers = (*told.failed, *told.cancelled)
    states: dict[int, State] = dict.fromkeys(told.failed, State.FAILED)
    states |= dict.fromkeys(told.cancelled, State.CANCELLED)
    steps = await find_steps(store, claim.id, numbers)
    states |= {number: job.state for number, job in steps.items() if job is not None}
    states |= {n: State.SUCCEEDED for n in numbers if step_id(claim.id, n) in since}
    after_retries = succeeded_if_gone(values)
    gone = [n for n, job in steps.items() if job is None and n in after_retries]
    states |= dict.fromkeys(gone, State.SUCCEEDED)
    retried = [number for number in numbers if states[number] is State.SUCCEEDED]
    added = [*told.additions, *await patrol.added_by(retried, values)]
    roots = await find_all(store, [id for id in added if id not in since])
    every = [*states.values(), *map(state_of, roots)]
    if not all(state in TERMINAL for state in every):
        await patrol.look_after([n for n, state in states.items() if state not in TERMINAL])
        return _later(claim)
    if after_retries and (lost := [n for n in numbers if states[n] is not State.SUCCEEDED]):
        await patrol.note_lost(lost)
    if State.FAILED in every:
        failed = sorted(number for number, state in states.items() if state is State.FAILED)
        return Raised(f"FlowFailed: {_failures(failed, roots)}", final=True)
    if State.CANCELLED not in every:
        return OWN_JOB_SUCCEEDED
    error = await patrol.failed_gathering()
    return Stopped() if error is None else Raised(f"FlowFailed: {error}", final=True)


def _failures(failed: list[int], additions: Iterable[Job | None]) -> str:
    """Which steps of a flow failed, in words."""
    named = ", ".join(map(str, failed[:10])) + (" …" if len(failed) > 10 else "")
    parts = [f"{len(failed)} of its steps failed: {named}"] if failed else []
    for job in additions:
        place = place_of(job) if job is not None and job.state is State.FAILED else None
        if place is not None and place.adder is not None:
            parts.append(f"some of the steps that step {place.adder.number} added failed")
    return "; ".join(parts)


_RUN: dict[str, Callable[[OwnTools, Claim, FlowPlace], Awaitable[Ending]]] = {
    FLOW_TASK: _flow,
    ADDED_TASK: _flow,
    GATHER_TASK: _gather,
}
