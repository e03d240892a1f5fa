"""Flows: jobs that depend on jobs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from mita.errors import UsageError
from mita.events.signals import Enqueued, FlowStarted
from mita.flows.delivery import STORED
from mita.model.flow import MOST_PREDECESSORS, Arrival
from mita.model.job import NewJob
from mita.ports.clock import wall_clock
from mita.ports.ids import new_id
from mita.ports.store import Can, Store
from mita.ports.transactional import transactional
from mita.rules.claim_size import CALL_JOBS
from mita.rules.flow_plan import FlowSpec
from mita.rules.names import check_name
from mita.tasks import Call, Task
from mita.tasks.flow_draft import FlowDraft
from mita.tasks.flow_step import Step
from mita.tasks.task import Bound
from mita.traces import sending_flow
from mita.twins import RunSync

from .acting import AuditRecorder, audited, of_new_flow
from .flow_run import FlowRun, FlowTools

R = TypeVar("R")

SMALL_FLOW_BYTES = 100_000  # of the arguments of its steps: they fit into one statement


class Flow(FlowDraft):
    """A flow that is being built. Nothing is stored until `enqueue`."""

    def __init__(
        self,
        name: str,
        tasks: Mapping[str, Task[Any, Any]],
        tools: FlowTools,
        run_sync: RunSync,
    ) -> None:
        super().__init__(check_name("flow", name), tasks)
        self._tools = tools
        self._run_sync = run_sync

    @property
    def _recorder(self) -> AuditRecorder:
        return self._tools.recorder

    async def enqueue(self) -> FlowRun:
        """Store the flow and return its run. Steps without predecessors can start at once. It may
        be called again: that is another flow. Raises `UsageError` if the flow has no steps."""
        flow = new_id()
        with sending_flow(flow, self.name, len(self._steps)) as trace:
            return await self._enqueue(flow, trace.headers)

    def enqueue_sync(self) -> FlowRun:
        """`enqueue`, from code that is not async."""
        flow = new_id()
        # the span starts here: the thread of the event loop does not know the caller's trace
        with sending_flow(flow, self.name, len(self._steps)) as trace:
            return self._run_sync(self._enqueue(flow, trace.headers))

    @audited(of_new_flow, "enqueue")
    async def _enqueue(self, flow: str, headers: bytes) -> FlowRun:
        store = await self._tools.store()
        spec, jobs = self._jobs(flow, headers, in_transaction=self._is_small_for(store))
        started = FlowStarted(flow, self.name, spec.steps, jobs[0].queue, wall_clock())
        await self._tools.store_jobs(jobs, started)
        if not spec.in_transaction:
            await store.arrive([Arrival(jobs[0].queue, flow, STORED, b"", spec.needs + 1)])
        return self._enqueued(flow)

    def _is_small_for(self, store: Store) -> bool:
        """Whether this store stores all of the flow at once. Then no arrival has to say so."""
        if Can.ENQUEUE_AT_ONCE not in store.can or len(self._steps) > MOST_PREDECESSORS:
            return False
        return sum(len(one.call.payload) for one in self._steps) <= SMALL_FLOW_BYTES

    def using(self, connection: Any) -> "TransactionalFlow":
        """Return the flow for the transaction that is open on your own `connection`: it exists
        exactly if the transaction commits. See `task.using`. When it is enqueued it raises
        `UsageError` on a store, or for a connection, that cannot do that, and here for a flow that
        is too large for one transaction."""
        if self._tools.has_outbox:
            raise UsageError(
                f"flow {self.name!r}: a flow cannot be written to an outbox. Enqueue a task in "
                "your transaction, task.using(connection).enqueue(…), whose handler enqueues the "
                "flow"
            )
        make = partial(self._jobs, in_transaction=True)
        steps = len(self._steps)
        return TransactionalFlow(
            self.name, steps, make, self._enqueued, connection, self._tools, self._run_sync
        )

    def _enqueued(self, flow: str) -> FlowRun:
        """The flow as it was stored. No more steps can be added to it."""
        self._closed = (
            f"flow {self.name!r} was enqueued as {flow}: a step that is added now would not run. "
            "Add all steps before flow.enqueue(); a handler of the flow can add steps while it "
            "runs: await job.add(…)"
        )
        return FlowRun(flow, self._tools, self._run_sync, self)


class TransactionalFlow:
    """A flow that is enqueued on `connection`, which is inside a transaction that only the user
    ends. `make` returns the jobs of a flow with this id, and `enqueued` its run."""

    def __init__(
        self,
        name: str,
        steps: int,
        make: Callable[[str, bytes], tuple[FlowSpec, list[NewJob]]],
        enqueued: Callable[[str], FlowRun],
        connection: Any,
        tools: FlowTools,
        run_sync: RunSync,
    ) -> None:
        self._name, self._steps, self._make, self._enqueued = name, steps, make, enqueued
        self._connection, self._tools, self._run_sync = connection, tools, run_sync

    async def enqueue(self) -> FlowRun:
        """Store the flow; it is there when the transaction commits."""
        store = transactional(await self._tools.store())
        started, parts = self._parts()
        for jobs in parts:
            receipts = await store.enqueue_in(self._connection, jobs)
            self._tools.events.emit_here(Enqueued(jobs, receipts, wall_clock()))
        return self._stored(started)

    def enqueue_sync(self) -> FlowRun:
        """`enqueue`, from code that is not async. It runs on the caller's thread, because no other
        may use the connection."""
        store = transactional(self._run_sync(self._tools.store()))
        started, parts = self._parts()
        for jobs in parts:
            receipts = store.enqueue_in_sync(self._connection, jobs)
            self._tools.events.emit_here(Enqueued(jobs, receipts, wall_clock()))
        return self._stored(started)

    def _parts(self) -> tuple[FlowStarted, list[list[NewJob]]]:
        """The jobs of the flow, as many at a time as a store takes."""
        flow = new_id()
        with sending_flow(flow, self._name, self._steps) as trace:
            spec, jobs = self._make(flow, trace.headers)
        started = FlowStarted(flow, self._name, spec.steps, jobs[0].queue, wall_clock())
        return started, [jobs[at : at + CALL_JOBS] for at in range(0, len(jobs), CALL_JOBS)]

    def _stored(self, started: FlowStarted) -> FlowRun:
        # here only: other processes must not see a flow that the user may roll back
        self._tools.events.emit_here(started)
        return self._enqueued(started.id)


# ---------------------------------------------------------------- chains and groups

Link: TypeAlias = Call[Any] | Callable[..., Call[Any]]
"""A link of a chain: a call, `task.call(…)`, or `task.call`, which gets the result before it."""


def chain(flow: Flow, links: Sequence[Link]) -> Flow:
    """Fill a flow with a chain: each link after the first is a call, or `task.call`, which gets the
    result of the link before it."""
    if not links:
        raise UsageError("chain(): give at least one call")
    last: Step[Any] | None = None
    for link in links:
        _check_link("chain(…)", link)
        if isinstance(link, Call):
            call = link
        elif last is None:
            raise UsageError("chain(…): begin with a call, task.call(…), with its arguments")
        else:
            call = _called("chain(…)", link, [last], partial(getattr, last, "result"))
        last = flow.add(call, after=() if last is None else [last])
    return flow


def _check_link(where: str, link: Link) -> None:
    if isinstance(link, Bound):
        raise UsageError(f"{where}: {link!r} is a task: give {link.name}.call, or a call of it")
    if isinstance(link, list | tuple):
        raise UsageError(f"{where}: give the links one by one, not as a list: chain(*links)")
    if not isinstance(link, Call) and not callable(link):
        raise UsageError(f"{where}: {link!r} is no call: give task.call(…) or task.call")


def _called(
    where: str,
    link: Callable[..., Call[Any]],
    before: Sequence[Step[Any]],
    result: Callable[[], Any],
) -> Call[Any]:
    """The call of a link without arguments. It gets the `result` of the steps `before` it, if they
    have one."""
    silent = next((step for step in before if not step.has_result), None)
    if silent is None:
        return link(result())
    try:
        return link()
    except UsageError as error:
        raise UsageError(
            f"{where}: {error}. It gets no result, because task {silent.task!r} returns None: give "
            "a call with its arguments, task.call(…)"
        ) from error


class GroupFlow(Flow):
    """Calls that run side by side. `then` adds a step that gets the list of their results."""

    members: tuple[Step[Any], ...] = ()

    def then(self, link: Link) -> Flow:
        """Run `link` after all members have succeeded. `task.call` gets the list of their results;
        a call, `task.call(…)`, is run as it is."""
        _check_link("then(…)", link)
        if not isinstance(link, Call):
            link = _called("then(…)", link, self.members, partial(self.results, self.members))
        self.add(link, after=self.members)
        return self


def group(flow: GroupFlow, calls: Iterable[Call[Any]]) -> GroupFlow:
    """Fill a flow with calls that run side by side."""
    if isinstance(calls, Call) or not isinstance(calls, Iterable):
        raise UsageError("group(…): give a list of calls: group([task.call(…), task.call(…)])")
    flow.members = tuple(flow.add(call) for call in calls)
    if not flow.members:
        raise UsageError("group([]): give at least one call")
    return flow
