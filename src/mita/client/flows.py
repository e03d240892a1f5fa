"""Flows: jobs that depend on jobs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

from mita.errors import UsageError
from mita.events.signals import FlowStarted
from mita.flows.delivery import STORED
from mita.model.flow import Arrival
from mita.ports.clock import wall_clock
from mita.ports.ids import new_id
from mita.rules.names import check_name
from mita.tasks import Call, Task
from mita.tasks.flow_draft import FlowDraft
from mita.tasks.flow_step import Step
from mita.tasks.task import Bound
from mita.traces import sending_flow
from mita.twins import RunSync

from .flow_run import FlowRun, FlowTools

R = TypeVar("R")


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

    async def enqueue(self) -> FlowRun:
        """Store the flow. Steps without predecessors can start at once."""
        flow = new_id()
        with sending_flow(flow, self.name, len(self._steps)) as trace:
            return await self._enqueue(flow, trace.headers)

    def enqueue_sync(self) -> FlowRun:
        """`enqueue`, from code that is not async."""
        flow = new_id()
        # the span starts here: the thread of the event loop does not know the caller's trace
        with sending_flow(flow, self.name, len(self._steps)) as trace:
            return self._run_sync(self._enqueue(flow, trace.headers))

    async def _enqueue(self, flow: str, headers: bytes) -> FlowRun:
        spec, jobs = self._jobs(flow, headers)
        started = FlowStarted(flow, self.name, spec.steps, jobs[0].queue, wall_clock())
        await self._tools.store_jobs(jobs, started)
        stored = Arrival(jobs[0].queue, flow, STORED, b"", spec.needs + 1)
        await (await self._tools.store()).arrive([stored])
        self._closed = (
            f"flow {self.name!r} was enqueued as {flow}: a step that is added now would not run. "
            "Add all steps before flow.enqueue(); a handler of the flow can add steps while it "
            "runs: await job.add(…)"
        )
        return FlowRun(flow, self._tools, self._run_sync, self)


# ---------------------------------------------------------------- chains and groups

Link: TypeAlias = Call[Any] | Callable[..., Call[Any]]


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
        """Run this after all members have succeeded. `task.call` gets the list of their results; a
        call, `task.call(…)`, is run as it is."""
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
