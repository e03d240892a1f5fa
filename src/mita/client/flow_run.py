"""A flow that was enqueued: its state, its results, cancel and retry."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from mita.errors import UsageError
from mita.events import ClientEvents
from mita.events.signals import Enqueued, FlowStarted
from mita.flows.acts import cancel_flow
from mita.flows.delivery import place_of
from mita.flows.parts import FlowPart, find_spec, parts_of, spec_of, steps_of
from mita.flows.retries import retry_flow
from mita.model.job import Job, NewJob
from mita.model.outcome import Answer, CancelJob
from mita.model.record import DisplayState, FlowPage, FlowRecord, FlowStep
from mita.model.time import Moment
from mita.model.view import JobFilter
from mita.ports.clock import wall_clock
from mita.ports.store import Store
from mita.rules.claim_size import CALL_JOBS
from mita.rules.display import as_datetime, shown
from mita.rules.flow import FLOW_TASK, step_id
from mita.rules.flow_plan import FlowSpec
from mita.rules.judge import Retention, first_line
from mita.rules.states import ALIVE
from mita.rules.text import note
from mita.tasks import Task
from mita.tasks.flow_step import Step
from mita.tasks.handle import Tracker
from mita.twins import RunSync, sync_twin

from .enqueue import OpenStore

R = TypeVar("R")


class FlowTools(Struct):
    """What flows need of their app."""

    store: OpenStore
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
        now, steps = await store.now(), list[FlowStep]()
        for part in await parts_of(store, self.id, spec_of(job)):
            numbers = iter(range(1, part.spec.steps + 1))
            async for jobs in steps_of(store, part.flow, range(1, part.spec.steps + 1)):
                steps += [_step(part, next(numbers), one, now) for one in jobs]
        return _record(job, now, tuple(steps))

    get_sync = sync_twin(get)

    async def cancel(self, reason: str = "") -> int:
        """Cancel all steps that have not ended. Running steps are asked to stop. Returns how many
        steps were cancelled or asked."""
        store = await self._tools.store()
        change = CancelJob(self._tools.keep.failed, note(reason))
        what = await cancel_flow(store, self.id, await self._spec(store), change)
        for one in what.changes:
            await self._tools.events.amended(store, one)
        return what.done + what.asked

    cancel_sync = sync_twin(cancel)

    async def retry(self, reason: str = "") -> int:
        """Run the failed and cancelled steps again. Steps that wait for others wait again. Returns
        how many steps were retried."""
        store = await self._tools.store()
        answers = await retry_flow(store, self.id, await self._spec(store), note(reason))
        return sum(answer is Answer.DONE for answer in answers.values())

    retry_sync = sync_twin(retry)

    async def _spec(self, store: Store) -> FlowSpec:
        spec = await find_spec(store, self.id)
        if spec is None:
            raise UsageError(
                f"no flow {self.id!r} is in the store: it never was, or it ended and was deleted"
            )
        return spec

    def __repr__(self) -> str:
        return f"<FlowRun {self.id}>"


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
