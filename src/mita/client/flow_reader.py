"""Reading the steps of a flow that one job waits for, with few calls to the store."""

from collections.abc import Collection, Iterable

import msgspec
from msgspec import Struct

from mita.flows.ended import place_of
from mita.model.flow import MOST_STEPS, FlowPlace
from mita.model.job import Job
from mita.ports.store import Store
from mita.rules.claim_size import CALL_JOBS
from mita.rules.flow import step_id
from mita.rules.flow_plan import FlowSpec, counter_groups, read_spec, rows_of
from mita.rules.states import TERMINAL

MOST_FINDS = 20  # calls to the store for one question, however large the flow is
# Earlier steps that are read together with the wanted ones: in a chain they are often next.
_FURTHER_JOBS = 200


class FoundStep(Struct, frozen=True):
    """A step, by its number; `job` is None if it was deleted."""

    number: int
    job: Job | None

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, or is gone."""
        return self.job is None or self.job.state in TERMINAL

    @property
    def gathers(self) -> Iterable[int]:
        """The numbers of the jobs that this one waits for."""
        place = None if self.job is None else place_of(self.job)
        return () if place is None else numbers_of(place)


class Predecessors(Struct, frozen=True):
    """The steps that a job waits for: how many there are in `total`, and the steps that have
    not told it that they ended. `is_exact`: all of them were read; else there are more."""

    total: int
    pending: tuple[FoundStep, ...]
    is_exact: bool = True


class FlowReader:
    """Reads jobs of one flow, at most `MOST_FINDS` times."""

    def __init__(self, store: Store, flow: str) -> None:
        self.store, self.flow = store, flow
        self._known: dict[int, Job | None] = {}
        self._finds = 0

    async def own_job(self) -> Job | None:
        """The job of the flow itself."""
        return (await self.jobs([0])).get(0)

    async def spec(self) -> FlowSpec | None:
        """What the job of the flow knows; None if it is gone, or cannot be read."""
        job = await self.own_job()
        try:
            return None if job is None else read_spec(job.payload)
        except (msgspec.MsgspecError, ValueError):
            return None

    async def jobs(self, numbers: Collection[int]) -> dict[int, Job | None]:
        """The jobs with these numbers, without those for which no call was left."""
        missing = sorted({number for number in numbers if number not in self._known})
        for at in range(0, len(missing), CALL_JOBS):
            if self._finds < MOST_FINDS:
                await self._find(missing[at : at + CALL_JOBS])
        return {number: self._known[number] for number in numbers if number in self._known}

    async def _find(self, numbers: list[int]) -> None:
        room = min(_FURTHER_JOBS, CALL_JOBS - len(numbers))
        before = range(max(1, numbers[0] - room), numbers[0])
        some = [*numbers, *(number for number in before if number not in self._known)]
        self._finds += 1
        found = await self.store.find([step_id(self.flow, number) for number in some])
        self._known.update(zip(some, found, strict=True))

    # ------------------------------------------------------------ what a job waits for

    async def predecessors(
        self, place: FlowPlace, told: Collection[int] | None = None
    ) -> Predecessors:
        """The steps that a job waits for. Jobs that gather others are replaced by those. `told` are
        the numbers of the jobs that have told it that they ended; None: all that have ended."""
        spec = await self.spec()
        steps = MOST_STEPS if spec is None else spec.steps  # the jobs after them gather others
        total, pending, is_exact = 0, list[FoundStep](), True
        level = {n: None if told is None else n in told for n in numbers_of(place)}
        while level:
            total += sum(number <= steps for number in level)
            found = await self.jobs([n for n, is_told in level.items() if n > steps or not is_told])
            members: dict[int, bool | None] = {}
            for number, is_told in level.items():
                if number <= steps and is_told:
                    continue
                if number not in found:
                    is_exact = False
                    continue
                one = FoundStep(number, found[number])
                has_told = one.has_ended if is_told is None else is_told
                if number > steps:
                    members |= dict.fromkeys(one.gathers, True if has_told else None)
                elif not has_told:
                    pending.append(one)
            level = members
        return Predecessors(total, tuple(pending), is_exact)

    async def all_steps(self, told: Collection[int]) -> Predecessors:
        """All steps of the flow, as `predecessors`. `told` are the jobs that have told the flow
        that they ended."""
        spec = await self.spec()
        if spec is None:
            return Predecessors(0, ())
        _, top = counter_groups(spec.steps, spec.first_counter)
        place = FlowPlace(self.flow, 0, predecessors=rows_of(top))
        return await self.predecessors(place, told)


def numbers_of(place: FlowPlace) -> Iterable[int]:
    """The numbers of the jobs that a job waits for."""
    return (number for first, last in place.predecessors for number in range(first, last + 1))
