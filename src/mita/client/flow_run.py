"""A flow that was enqueued: its state, its results, cancel and retry."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from mita.errors import UsageError
from mita.events import ClientEvents
from mita.events.signals import Amended, Enqueued, FlowStarted
from mita.flows.delivery import conclude_and_wake, ended_job, place_of
from mita.flows.parts import FlowPart, parts_of, spec_of
from mita.flows.patrol import find_steps
from mita.model.flow import FlowPlace
from mita.model.job import Job, NewJob
from mita.model.outcome import Answer, CancelJob, RetryJob
from mita.model.record import DisplayState, FlowPage, FlowRecord, FlowStep
from mita.model.time import LATEST, NOW, Moment, When
from mita.model.view import JobFilter
from mita.ports.clock import wall_clock
from mita.ports.store import Store
from mita.rules.claim_size import CALL_JOBS
from mita.rules.display import as_datetime, shown
from mita.rules.durable import arrival_name, arrivals
from mita.rules.flow import FLOW_TASK, patrol_wait, step_id
from mita.rules.flow_plan import FlowSpec
from mita.rules.judge import Retention, first_line
from mita.rules.states import ALIVE, DEAD
from mita.rules.text import note
from mita.tasks import Task
from mita.tasks.flow_step import Step
from mita.tasks.handle import Tracker
from mita.twins import RunSync, sync_twin

R = TypeVar("R")


class FlowTools(Struct):
    """What flows need of their app."""

    store: Callable[[], Awaitable[Store]]
    tracker: Tracker
    tasks: Mapping[str, Task[Any, Any]]
    keep: Retention
    events: ClientEvents

    async def store_jobs(self, jobs: Sequence[NewJob], started: FlowStarted | None = None) -> None:
        """Store the jobs of a flow in their order, as many in a call as a store takes. `started` is
        reported when its own job, the first, is stored."""
        store = await self.store()
        for at in range(0, len(jobs), CALL_JOBS):
            some = jobs[at : at + CALL_JOBS]
            receipts = await store.enqueue(some)
            if started is not None and not at:
                self.events.emit(store, started)
            self.events.emit(store, Enqueued(some, receipts, wall_clock()))


class FlowRun:
    """A flow that was enqueued."""

    def __init__(
        self, id: str, tools: FlowTools, run_sync: RunSync, draft: object | None = None
    ) -> None:
        self.id = id
        self._draft = draft  # whose steps it has; None if this process did not build it
        self._tools = tools
        self._run_sync = run_sync

    async def result(self, step: Step[R], timeout: float | None = None) -> R:
        """Wait until this step has ended and return its result, as `Handle.result` does."""
        if not isinstance(step, Step):
            raise UsageError(f"{step!r} is not a step: give what flow.add(…) returned")
        if self._draft is not None and step.flow is not self._draft:
            raise UsageError(f"{step!r} is a step of another flow than {self.id}")
        value: R = await self._tools.tracker.result(step_id(self.id, step.number), timeout)
        return value

    def result_sync(self, step: Step[R], timeout: float | None = None) -> R:
        """`result`, from code that is not async."""
        value: R = self._run_sync(self.result(step, timeout))
        return value

    async def wait(self, timeout: float | None = None) -> None:
        """Wait until all steps have ended. Raises `JobFailed` or `JobCancelled` if the flow did not
        succeed, and `TimeoutError` after `timeout` seconds."""
        await self._tools.tracker.result(self.id, timeout)

    wait_sync = sync_twin(wait)

    async def get(self) -> FlowRecord | None:
        """Return the state of the flow and of all its steps; None if the flow was deleted."""
        store = await self._tools.store()
        [job] = await store.find([self.id])
        if job is None or job.task != FLOW_TASK:
            return None
        parts = await parts_of(store, self.id, spec_of(job))
        now = await store.now()
        steps = [
            _step(part, number, one, now)
            for part in parts
            for number, one in (
                await find_steps(store, part.flow, range(1, part.spec.steps + 1))
            ).items()
        ]
        return _record(job, now, tuple(steps))

    get_sync = sync_twin(get)

    async def cancel(self, reason: str = "") -> int:
        """Cancel all steps that have not ended. Running steps are asked to stop. Returns how many
        steps were cancelled or asked."""
        store = await self._tools.store()
        alive = [job for _, jobs in await self._jobs(store) for job in jobs if job.state in ALIVE]
        change, done = CancelJob(self._tools.keep.failed, note(reason)), list[str]()
        asked = 0
        for at in range(0, len(alive), CALL_JOBS):
            some = alive[at : at + CALL_JOBS]
            answers = await store.amend([job.id for job in some], change)
            for job, answer in zip(some, answers, strict=True):
                signal = Amended(job.id, change, answer, wall_clock(), job.task, job.queue)
                await self._tools.events.amended(store, signal)
                if answer is Answer.DONE:
                    done.append(job.id)
            asked += answers.count(Answer.ASKED)
        await self._conclude(store, done)
        return len(done) + asked

    cancel_sync = sync_twin(cancel)

    async def retry(self, reason: str = "") -> int:
        """Run the failed and cancelled steps again. Steps that wait for others wait again. Returns
        how many steps were retried."""
        store = await self._tools.store()
        revived = 0
        for flow, jobs in await self._jobs(store):
            dead = [job for job in jobs if job.state in DEAD]
            if dead or flow == self.id:
                revived += await revive(store, flow, dead, note(reason))
        return revived

    retry_sync = sync_twin(retry)

    async def _jobs(self, store: Store) -> list[tuple[str, list[Job]]]:
        """All steps that are in the store, and the jobs that gather what they tell: first those of
        the flow, and then those that were added, each with the id of its flow."""
        found: list[tuple[str, list[Job]]] = []
        for part in await parts_of(store, self.id, await self._spec(store)):
            jobs = await find_steps(store, part.flow, range(1, part.spec.first_counter))
            found.append((part.flow, [job for job in jobs.values() if job is not None]))
        return found

    async def _spec(self, store: Store) -> FlowSpec:
        [job] = await store.find([self.id])
        if job is None or job.task != FLOW_TASK:
            raise UsageError(
                f"no flow {self.id!r} is in the store: it never was, or it ended and was deleted"
            )
        return spec_of(job)

    async def _conclude(self, store: Store, ids: Sequence[str]) -> None:
        for at in range(0, len(ids), CALL_JOBS):
            jobs = [job for job in await store.find(ids[at : at + CALL_JOBS]) if job is not None]
            ended = [one for one in map(ended_job, jobs) if one is not None]
            for one in await conclude_and_wake(store, ended, self._tools.keep.failed):
                await self._tools.events.amended(store, one)

    def __repr__(self) -> str:
        return f"<FlowRun {self.id}>"


async def revive(store: Store, flow: str, dead: Sequence[Job], reason: str) -> int:
    """Bring these failed and cancelled steps of a flow back. The flow itself is first, so that it
    looks after what a process that dies in between leaves undone. Then come the steps that wait,
    and last those that can start. Returns how many were brought back."""
    waiting: list[str] = []
    starting: list[str] = []
    for job in dead:
        (waiting if await _waits(store, job) else starting).append(job.id)
    for id in await _with_flows_above(store, flow):
        await store.amend([id], RetryJob(When(patrol_wait(0)), reason))
    revived = 0
    for ids, when in ((waiting, When(at=LATEST)), (starting, NOW)):
        for at in range(0, len(ids), CALL_JOBS):
            answers = await store.amend(ids[at : at + CALL_JOBS], RetryJob(when, reason))
            revived += answers.count(Answer.DONE)
    return revived


async def _with_flows_above(store: Store, flow: str) -> list[str]:
    """The flow to which these steps were added, if they were, and to which that was, and last the
    one with this id."""
    ids = [flow]
    while True:
        [job] = await store.find([ids[0]])
        place = None if job is None else place_of(job)
        if place is None or place.adder is None:
            return ids
        ids.insert(0, place.adder.flow)


async def _waits(store: Store, job: Job) -> bool:
    """Whether some predecessors of this step have not told it that they succeeded."""
    place = place_of(job)
    if place is None or not place.needs:
        return False
    return arrivals(await store.once_values(job.id)) < place.needs


async def bring_back(store: Store, job: Job, place: FlowPlace, reason: str) -> None:
    """Before a step is retried: bring the flow and the steps back that were cancelled because of
    it."""
    follow = [one for one in await downstream(store, job, place) if one.id != job.id]
    await revive(store, place.flow, follow, reason)


async def check_predecessors(store: Store, job: Job, place: FlowPlace) -> bool:
    """Return whether a step waits for predecessors when it is brought back. Raises `UsageError` if
    one of them failed, was cancelled or is gone: the step would wait for ever."""
    told = await store.once_values(job.id)
    numbers = [n for first, last in place.predecessors for n in range(first, last + 1)]
    ids = [id for n in numbers if arrival_name(id := step_id(place.flow, n)) not in told]
    for id, found in zip(ids, await store.find(ids), strict=True):
        if found is None or found.state in DEAD:
            how = "is gone" if found is None else f"is {found.state.value}"
            raise UsageError(
                f"step {job.id!r} waits for {id!r}, which {how}: retry that step, and this one "
                "comes back with it"
            )
    return bool(ids)


async def dead_step(store: Store, id: str) -> tuple[Job, FlowPlace] | None:
    """A step that failed or was cancelled, and its place; None if the job is no such step."""
    [job] = await store.find([id])
    place = None if job is None else place_of(job)
    return None if job is None or place is None or job.state not in DEAD else (job, place)


async def downstream(store: Store, job: Job, place: FlowPlace) -> list[Job]:
    """The cancelled jobs of a flow that wait for this one, directly or through others."""
    found: dict[str, Job] = {}
    todo = [place]
    while todo:
        ids = [
            step_id(place.flow, number)
            for one in todo
            for to in one.dependants
            if not to.always
            for number in range(to.first, to.last + 1)
        ]
        new = [id for id in dict.fromkeys(ids) if id not in found]
        jobs = [one for one in await store.find(new) if one is not None and one.state in DEAD]
        found.update((one.id, one) for one in jobs)
        todo = [at for one in jobs if (at := place_of(one)) is not None]
    return [job, *found.values()]


async def page_of_flows(store: Store, after: str | None, limit: int) -> FlowPage:
    """Flows, newest first, with ids below `after`."""
    found = await store.page(JobFilter(task=FLOW_TASK), after, limit)
    now = await store.now()
    return FlowPage(tuple(_record(job, now) for job in found.jobs), found.after)


def _record(job: Job, now: Moment, steps: tuple[FlowStep, ...] = ()) -> FlowRecord:
    spec = spec_of(job)
    return FlowRecord(
        id=job.id,
        name=spec.name,
        state=_state(job, now),
        created=as_datetime(job.created),
        total=spec.steps,
        finished=None if job.finished is None else as_datetime(job.finished),
        error=job.error,
        steps=steps,
    )


def _state(job: Job, now: int) -> DisplayState:
    """The state of a flow: running until its job has ended."""
    return DisplayState.RUNNING if job.state in ALIVE else shown(job, now)


def _step(part: FlowPart, number: int, job: Job | None, now: int) -> FlowStep:
    if job is None:
        id = step_id(part.flow, number)
        return FlowStep(number, id, "", "", None, added_by=part.adder)
    place = place_of(job)
    return FlowStep(
        number,
        job.id,
        job.task,
        job.queue,
        shown(job, now),
        None if job.started is None else as_datetime(job.started),
        None if job.finished is None else as_datetime(job.finished),
        first_line(job.error or ""),
        () if place is None else place.predecessors,
        place is not None and place.always,
        part.adder,
    )
