"""A flow that was enqueued: its state, its results, cancel and retry."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from mita.errors import UsageError
from mita.events import ClientEvents
from mita.events.signals import Amended, Enqueued, FlowStarted
from mita.flows.acts import cancel_flow
from mita.flows.parts import find_spec
from mita.flows.retries import retry_flow
from mita.model.job import NewJob
from mita.model.outcome import Answer, CancelJob
from mita.model.record import FlowRecord
from mita.ports.clock import wall_clock
from mita.ports.store import Store
from mita.rules.claim_size import CALL_JOBS
from mita.rules.flow import step_id
from mita.rules.flow_plan import FlowSpec
from mita.rules.judge import Retention
from mita.rules.text import note
from mita.tasks import Task
from mita.tasks.flow_step import Step
from mita.tasks.handle import Tracker
from mita.twins import RunSync, sync_twin

from .acting import AuditRecorder, audited, of_flow
from .enqueue import OpenStore
from .flow_records import whole_flow

R = TypeVar("R")


class FlowTools(Struct):
    """What flows need of their app."""

    store: OpenStore
    tracker: Tracker
    tasks: Mapping[str, Task[Any, Any]]
    keep: Retention
    events: ClientEvents
    recorder: AuditRecorder
    has_outbox: bool = False

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

    @property
    def _recorder(self) -> AuditRecorder:
        return self._tools.recorder

    async def result(self, step: Step[R], timeout: float | None = None) -> R:
        """Wait until this `step` has ended and return its result. Raises `JobFailed`,
        `JobCancelled`, or `TimeoutError` after `timeout` seconds (None: wait for ever), and
        `UsageError` for a step of another flow."""
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
        return await whole_flow(await self._tools.store(), self.id)

    get_sync = sync_twin(get)

    @audited(of_flow)
    async def cancel(self, reason: str = "") -> int:
        """Cancel all steps that have not ended. Running steps are asked to stop. The `reason` is
        stored in their timelines. Returns how many steps were cancelled or asked."""
        store = await self._tools.store()
        change = CancelJob(self._tools.keep.failed, note(reason))
        what = await cancel_flow(store, self.id, await self._spec(store), change)
        for one in what.changes:
            await self._tools.events.amended(store, one)
        return what.done + what.asked

    cancel_sync = sync_twin(cancel)

    @audited(of_flow)
    async def retry(self, reason: str = "") -> int:
        """Run the failed and cancelled steps again. Steps that wait for others wait again. The
        `reason` is stored in their timelines. Returns how many steps were retried."""
        store = await self._tools.store()
        spec, reports = await self._spec(store), list[Amended]()
        answers = await retry_flow(store, self.id, spec, note(reason), reports)
        for one in reports:
            await self._tools.events.amended(store, one)
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
