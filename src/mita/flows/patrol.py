"""The patrol of a flow: its own job looks for what a process that died has left undone."""

from collections.abc import Collection, Iterable, Sequence

from mita.events import Emit
from mita.events.signals import Amended
from mita.model.flow import Addition, Arrival, FlowPlace
from mita.model.job import Claim, Job, State
from mita.model.time import HOUR, LATEST, Wait
from mita.ports.ids import new_id
from mita.ports.store import OnceValue, Store
from mita.rules.claim_size import CALL_JOBS
from mita.rules.durable import signal_name
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
from mita.rules.flow_plan import FlowSpec, counter_groups, counter_of
from mita.rules.flow_retries import LOST, pack_numbers
from mita.rules.judge import first_line
from mita.rules.readable import unreadable
from mita.rules.states import TERMINAL

from .arrivals import arrive, read_values
from .cancels import cancel
from .delivery import conclude
from .ended import ended_job, place_of

PATROL = "patrol"  # so begins the sender of an arrival that only wakes a step
ABANDONED: Wait = HOUR  # after which a flow that was not stored whole is given up


class Patrol:
    """Finds what a process that died has left undone: steps that ended and have told no job, steps
    that are gone, and steps that wait for nothing. What it cancels is emitted."""

    def __init__(self, store: Store, claim: Claim, spec: FlowSpec, keep: Wait, emit: Emit) -> None:
        self._store, self._claim, self._spec, self._keep = store, claim, spec, keep
        self._emit = emit
        self._flow = claim.id
        self._counted: list[Told] = []  # what counters know that have not told it the flow yet
        self._additions: dict[int, Addition] = {}  # by the number of the step that has added them

    async def run(self, values: dict[str, bytes], *, is_stored: bool) -> Told | None:
        """Tell what was not told. `values` are the once values of the flow. Returns how the steps
        ended of which the flow does not know, if all steps have ended; None if some have not."""
        pending = await self._pending(values)
        # a step that has added others ends with them
        added = [self._additions[n].flow for n in pending if n in self._additions]
        roots = await find_all(self._store, added)
        await self._conclude(roots)
        steps = [n for n in pending if n not in self._additions]
        may_be_incomplete = not is_stored and self._claim.at - self._claim.created <= ABANDONED
        found = await self.look_after(steps, may_be_incomplete=may_be_incomplete)
        if found is None or not all(state_of(job) in TERMINAL for job in roots):
            return None
        ends = zip(added, roots, strict=True)
        return together(
            [
                *self._counted,
                *(told_to_counter(number, state_of(found[number])) for number in steps),
                *(told_of_addition(flow, state_of(job)) for flow, job in ends),
            ]
        )

    async def look_after(
        self, numbers: Sequence[int], *, may_be_incomplete: bool = False
    ) -> dict[int, Job | None] | None:
        """Tell what these steps, and the jobs that gather others, have not told. Returns the jobs
        by number if all have ended; None if some have not, or may not be stored yet."""
        between = range(self._spec.steps + 1, self._spec.first_counter)
        found = await find_steps(self._store, self._flow, [*numbers, *between])
        await self._conclude(found.values())
        if may_be_incomplete and None in found.values():
            return None
        alive = {n: job for n, job in found.items() if job and job.state not in TERMINAL}
        for job in alive.values():
            if not self._may_be_stuck(job):
                continue
            place = place_of(job)
            if place is None:
                await self._cancel(job, unreadable("its place in its flow cannot be read"))
            elif not _numbers(place) & alive.keys():
                await self._catch_up(job, place)
        return None if alive else found

    async def note_lost(self, numbers: Collection[int]) -> None:
        """Store that these steps of a large flow have not succeeded when it ends: one of them may
        be deleted before the flow is retried."""
        name = signal_name(f"{LOST}{new_id()}")
        fact = OnceValue(claim=self._claim, name=name, value=pack_numbers(numbers), keep=None)
        await self._store.store_once(fact)

    async def failed_gathering(self) -> str | None:
        """Why a job failed that gathers results, so that the steps behind it were cancelled; None
        if none failed."""
        between = range(self._spec.steps + 1, self._spec.first_counter)
        jobs = await find_steps(self._store, self._flow, between) if between else {}
        failed = [job for job in jobs.values() if job is not None and job.state is State.FAILED]
        return first_line(failed[0].error or "") if failed else None

    async def end_counters(self) -> None:
        """All steps have ended, and some have told no job: cancel the counters that wait for
        them."""
        counters, _ = counter_groups(self._spec.steps, self._spec.first_counter)
        ids = [step_id(self._flow, number) for number in counters]
        await cancel(self._store, ids, "its flow has ended", self._keep, [])

    def _may_be_stuck(self, job: Job) -> bool:
        """Whether this job waits and has never run, so that it may wait for jobs that have ended.
        A step that is retried or sleeps has a time of its own."""
        return job.state is State.QUEUED and job.due > self._claim.at and not job.attempts

    async def _catch_up(self, job: Job, place: FlowPlace) -> None:
        """No predecessor of this step is alive, as far as the counters know. Tell it what it was
        not told, or cancel it."""
        told = told_by_sender(await self._store.once_values(job.id))
        missing = [n for n in sorted(_numbers(place)) if step_id(self._flow, n) not in told]
        if not missing:
            if job.due == LATEST and len(told) >= place.needs:
                # not a reschedule: it may run by now, and would run again after that
                sender = f"{PATROL} {self._claim.token}"
                woken = Arrival(job.queue, job.id, sender, pack_told(Told()), place.needs)
                await arrive(self._store, [woken])
            return
        found = await find_steps(self._store, self._flow, missing)
        await self._conclude(found.values())
        gone = [n for n, one in found.items() if one is None or _is_lost(one)]
        if gone and place.always:
            await arrive(self._store, [_absence(job, place, number) for number in gone])
        elif gone:
            await self._cancel(job, f"step {gone[0]} of its flow is gone")

    async def _cancel(self, job: Job, reason: str) -> None:
        """Cancel a step, and what follows from it."""
        reports: list[Amended] = []
        stopped = await cancel(self._store, [job.id], reason, self._keep, reports)
        for one in (*reports, *await conclude(self._store, stopped, self._keep)):
            self._emit(one)

    async def _conclude(self, jobs: Iterable[Job | None]) -> None:
        """Tell what follows from the end of these jobs; jobs that have not ended are left out."""
        ended = [end for job in jobs if job and (end := ended_job(job)) is not None]
        for one in await conclude(self._store, ended, self._keep):
            self._emit(one)

    async def added_by(self, numbers: Sequence[int], values: dict[str, bytes]) -> list[str]:
        """The ids of what these steps have added. `values` are the once values of the flow."""
        found = additions(values)
        counters = {counter_of(number, self._spec) for number in numbers} - {0}
        for known in await self._read_values(counters):
            found |= additions(known)
        return [found[number].flow for number in numbers if number in found]

    async def _read_values(self, numbers: Collection[int]) -> list[dict[str, bytes]]:
        """The once values of these jobs of the flow."""
        return await read_values(self._store, [step_id(self._flow, n) for n in sorted(numbers)])

    async def _pending(self, values: dict[str, bytes]) -> list[int]:
        """The numbers of the steps that have not told that they ended. It also finds what they have
        added."""
        groups, top = counter_groups(self._spec.steps, self._spec.first_counter)
        told = {number_of(self._flow, id) for id in told_by_sender(values)}
        left = [number for number in top if number not in told]
        self._additions = additions(values)
        pending: list[int] = []
        while left:
            pending += [number for number in left if number not in groups]
            counters = sorted(number for number in left if number in groups)
            left = []
            for number, known in zip(counters, await self._read_values(counters), strict=True):
                by_sender = told_by_sender(known)
                self._counted += by_sender.values()
                counted = {number_of(self._flow, id) for id in by_sender}
                self._additions |= additions(known)
                left += [member for member in groups[number] if member not in counted]
        return sorted(pending)


def _is_lost(job: Job) -> bool:
    """Whether this job has ended and does not know whom to tell."""
    return job.state in TERMINAL and place_of(job) is None


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
