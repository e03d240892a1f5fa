"""The patrol of a flow: its own job looks for what a process that died has left undone."""

from collections.abc import Iterable, Sequence

from mita.model.flow import Addition, Arrival, FlowPlace
from mita.model.job import Claim, Job, State
from mita.model.time import HOUR, Wait
from mita.ports.store import Store
from mita.rules.claim_size import CALL_JOBS
from mita.rules.flow import (
    EndedStep,
    Told,
    additions,
    number_of,
    pack_told,
    step_id,
    together,
    told_by_sender,
    told_of_addition,
    told_to_counter,
)
from mita.rules.flow_plan import FlowSpec, counter_groups
from mita.rules.states import TERMINAL

from .delivery import arrive, cancel, conclude, ended_job, place_of

ABANDONED: Wait = HOUR  # after which a flow that was not stored whole is given up


class Patrol:
    """Finds what a process that died has left undone: steps that ended and have told nobody, and
    steps that are gone."""

    def __init__(self, store: Store, claim: Claim, spec: FlowSpec, keep: Wait) -> None:
        self._store, self._claim, self._spec, self._keep = store, claim, spec, keep
        self._flow = claim.id
        self._additions: dict[int, Addition] = {}  # by the number of the step that has added them

    async def run(self, values: dict[str, bytes], *, is_stored: bool) -> Told | None:
        """Tell what was not told. `values` are the once values of the flow. Returns how the steps
        ended that have told nobody, if all steps have ended; None if some have not."""
        pending = await self._pending(values)
        # a step that has added others ends with them
        added = [self._additions[n].flow for n in pending if n in self._additions]
        roots = await find_all(self._store, added)
        between = range(self._spec.steps + 1, self._spec.first_counter)
        numbers = [n for n in (*pending, *between) if n not in self._additions]
        found = await find_steps(self._store, self._flow, numbers)
        everything = [job for job in (*found.values(), *roots) if job is not None]
        ended = [one for one in map(ended_job, everything) if one is not None]
        gone = {number for number, job in found.items() if job is None}
        await conclude(self._store, ended, self._keep)
        if gone and (is_stored or self._claim.at - self._claim.created > ABANDONED):
            waiting = [job for job in found.values() if job and job.state not in TERMINAL]
            await self._without(gone, waiting)
        elif gone:
            return None
        if any(job.state not in TERMINAL for job in everything):
            return None
        steps = [
            told_to_counter(number, state_of(job))
            for number, job in found.items()
            if number <= self._spec.steps
        ]
        ends = zip(added, roots, strict=True)
        return together([*steps, *(told_of_addition(flow, state_of(job)) for flow, job in ends)])

    async def _pending(self, values: dict[str, bytes]) -> list[int]:
        """The numbers of the steps that have not told that they ended. It also finds what they have
        added."""
        groups, top = counter_groups(self._spec.steps, self._spec.first_counter)
        told = {number_of(self._flow, id) for id in told_by_sender(values)}
        left = [number for number in top if number not in told]
        self._additions = additions(values)
        pending: list[int] = []
        while left:
            number = left.pop()
            members = groups.get(number)
            if members is None:
                pending.append(number)
                continue
            values = await self._store.once_values(step_id(self._flow, number))
            counted = {number_of(self._flow, id) for id in told_by_sender(values)}
            self._additions |= additions(values)
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


def state_of(job: Job | None) -> State:
    """The state of a job; one that was deleted counts as cancelled."""
    return State.CANCELLED if job is None else job.state


async def find_all(store: Store, ids: Sequence[str]) -> list[Job | None]:
    """The jobs with these ids, in their order; None for one that was deleted."""
    return [
        job
        for at in range(0, len(ids), CALL_JOBS)
        for job in await store.find(ids[at : at + CALL_JOBS])
    ]


async def find_steps(store: Store, flow: str, numbers: Sequence[int]) -> dict[int, Job | None]:
    """The steps of a flow with these numbers."""
    jobs = await find_all(store, [step_id(flow, number) for number in numbers])
    return dict(zip(numbers, jobs, strict=True))
