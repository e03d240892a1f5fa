"""The jobs of a flow that run no code of the user: the job of the flow itself, and jobs that gather
what others tell. Any worker of their queue runs them, between its other work."""

from collections.abc import Awaitable, Callable, Iterable

import msgspec

from mita.model.ending import Ending, Raised, Returned, Stopped, Suspended, Unreadable
from mita.model.flow import Arrival, FlowPlace
from mita.model.job import Claim, Job, State
from mita.model.time import HOUR, Wait, When
from mita.ports.store import Store
from mita.rules.claim_size import CALL_JOBS
from mita.rules.durable import ARRIVAL
from mita.rules.flow import (
    FLOW_TASK,
    GATHER_TASK,
    EndedStep,
    Told,
    number_of,
    pack_told,
    patrol_wait,
    read_told,
    receivers,
    step_id,
    together,
    told_to_counter,
)
from mita.rules.flow_plan import FlowSpec, counter_groups, read_spec
from mita.rules.options import options_of
from mita.rules.states import TERMINAL

from .delivery import arrive, cancel, conclude, ended_job, place_of
from .runs import TOO_EARLY_WAIT

STORED = "stored"  # the sender of the arrival that says that the whole flow is stored
ABANDONED: Wait = HOUR  # after which a flow that was not stored whole is given up
_NOTHING = Returned(msgspec.msgpack.encode(None))


async def run_own_job(store: Store, claim: Claim, keep: Wait) -> Ending:
    """Run a job of one of the tasks in `FLOW_TASKS`. `keep` is how long cancelled jobs are kept."""
    place = options_of(claim.options).flow
    if place is None:
        return Unreadable("this job has lost its place in its flow")
    return await _RUN[claim.task](store, claim, place, keep)


def _told(values: dict[str, bytes]) -> dict[str, Told]:
    """What others have told a job, by sender."""
    return {
        name.removeprefix(ARRIVAL): read_told(value)
        for name, value in values.items()
        if name.startswith(ARRIVAL) and value
    }


# ---------------------------------------------------------------- gathering


async def _gather(store: Store, claim: Claim, place: FlowPlace, keep: Wait) -> Ending:  # noqa: ARG001
    """Tell in one what others have told."""
    told = _told(await store.once_values(claim.id))
    if len(told) < place.needs:
        return Suspended(When(TOO_EARLY_WAIT))
    whole = together(told.values())
    arrivals = [
        Arrival(to.queue, receiver, claim.id, pack_told(whole), to.needs)
        for to in (*place.dependants, *((place.counter,) if place.counter else ()))
        for receiver in receivers(place.flow, to)
    ]
    await arrive(store, arrivals)
    return _NOTHING


# ---------------------------------------------------------------- the flow itself


async def _flow(store: Store, claim: Claim, place: FlowPlace, keep: Wait) -> Ending:
    """End with the flow, or look after it."""
    spec = read_spec(claim.payload)
    values = await store.once_values(claim.id)
    told = _told(values)
    if len(told) >= spec.needs:
        return await _end(store, claim, place, together(told.values()))
    patrol = _Patrol(store, claim, spec, keep)
    rest = await patrol.run(set(told), is_stored=f"{ARRIVAL}{STORED}" in values)
    if rest is not None:
        return await _end(store, claim, place, together([*told.values(), rest]))
    return Suspended(When(patrol_wait(claim.at - claim.created)))


async def _end(store: Store, claim: Claim, place: FlowPlace, told: Told) -> Ending:
    """The ending of a flow whose steps have all ended. A step that was retried since then counts as
    it is now."""
    numbers = (*told.failed, *told.cancelled)
    states: dict[int, State] = dict.fromkeys(told.failed, State.FAILED)
    states |= dict.fromkeys(told.cancelled, State.CANCELLED)
    for at in range(0, len(numbers), CALL_JOBS):
        some = numbers[at : at + CALL_JOBS]
        jobs = await store.find([step_id(place.flow, number) for number in some])
        states |= {n: job.state for n, job in zip(some, jobs, strict=True) if job is not None}
    if not all(state in TERMINAL for state in states.values()):
        return Suspended(When(patrol_wait(claim.at - claim.created)))
    failed = [number for number, state in states.items() if state is State.FAILED]
    if failed:
        named = ", ".join(str(number) for number in sorted(failed)[:10])
        more = " …" if len(failed) > 10 else ""
        return Raised(f"FlowFailed: {len(failed)} of its steps failed: {named}{more}", final=True)
    if State.CANCELLED in states.values():
        return Stopped()
    return _NOTHING


class _Patrol:
    """Finds what a process that died has left undone: steps that ended and have told nobody, and
    steps that are gone."""

    def __init__(self, store: Store, claim: Claim, spec: FlowSpec, keep: Wait) -> None:
        self._store, self._claim, self._spec, self._keep = store, claim, spec, keep
        self._flow = claim.id

    async def run(self, told: set[str], *, is_stored: bool) -> Told | None:
        """Tell what was not told. Returns how the steps ended that have told nobody, if all steps
        have ended; None if some have not."""
        pending = await self._pending({number_of(self._flow, id) for id in told})
        between = range(self._spec.steps + 1, self._spec.first_counter)
        found = await self._find([*pending, *between])
        ended = [one for job in found.values() if job and (one := ended_job(job)) is not None]
        gone = {number for number, job in found.items() if job is None}
        await conclude(self._store, ended, self._keep)
        if gone and (is_stored or self._claim.at - self._claim.created > ABANDONED):
            waiting = [job for job in found.values() if job and job.state not in TERMINAL]
            await self._without(gone, waiting)
        elif gone:
            return None
        if any(job and job.state not in TERMINAL for job in found.values()):
            return None
        return together(
            told_to_counter(number, job.state if job else State.CANCELLED)
            for number, job in found.items()
            if number <= self._spec.steps
        )

    async def _find(self, numbers: list[int]) -> dict[int, Job | None]:
        found: dict[int, Job | None] = {}
        for at in range(0, len(numbers), CALL_JOBS):
            some = numbers[at : at + CALL_JOBS]
            jobs = await self._store.find([step_id(self._flow, number) for number in some])
            found.update(zip(some, jobs, strict=True))
        return found

    async def _pending(self, told: set[int]) -> list[int]:
        """The numbers of the steps that have not told that they ended."""
        groups, top = counter_groups(self._spec.steps, self._spec.first_counter)
        left = [number for number in top if number not in told]
        pending: list[int] = []
        while left:
            number = left.pop()
            members = groups.get(number)
            if members is None:
                pending.append(number)
                continue
            values = await self._store.once_values(step_id(self._flow, number))
            counted = {number_of(self._flow, id) for id in _told(values)}
            left += [member for member in members if member not in counted]
        return sorted(pending)

    async def _without(self, gone: set[int], waiting: Iterable[Job]) -> None:
        """Some steps were never stored, or were deleted. Cancel the steps that wait for them, or
        tell them, if they start anyway."""
        stopped: list[str] = []
        for job in waiting:
            place = place_of(job)
            missing = sorted(gone.intersection(_numbers(place))) if place is not None else []
            if place is None or not missing:
                continue
            if place.always:
                await arrive(self._store, [_absence(job, place, number) for number in missing])
            else:
                reason = f"step {missing[0]} of its flow is gone"
                stopped += await cancel(self._store, [job.id], reason, self._keep, [])
        found = [job for job in await self._store.find(stopped) if job is not None]
        ended = [one for one in map(ended_job, found) if one is not None]
        await conclude(self._store, ended, self._keep)


def _absence(job: Job, place: FlowPlace, number: int) -> Arrival:
    """What a step that starts however its predecessors end is told of one that is gone."""
    ended = EndedStep(number, "", State.CANCELLED, "it is gone")
    sender = step_id(place.flow, number)
    return Arrival(job.queue, job.id, sender, pack_told(Told(ended=(ended,))), place.needs)


def _numbers(place: FlowPlace) -> set[int]:
    """The numbers of the predecessors of a job."""
    return {number for first, last in place.predecessors for number in range(first, last + 1)}


_RUN: dict[str, Callable[[Store, Claim, FlowPlace, Wait], Awaitable[Ending]]] = {
    FLOW_TASK: _flow,
    GATHER_TASK: _gather,
}
