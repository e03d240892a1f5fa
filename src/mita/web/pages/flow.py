"""The page of one flow: its graph, its steps, the signals that they wait for, cancel and retry."""

from collections.abc import Sequence

from markupsafe import Markup
from starlette.responses import Response

from mita.errors import UsageError
from mita.model.record import DisplayState, FlowRecord, FlowStep, JobRecord
from mita.rules.words import counted
from mita.web.aged import Aged
from mita.web.svg import flow_graph
from mita.web.svg.flow_groups import FlowNode, counted_states
from mita.web.visit import NotHere, Visit

_PAGE_STEPS = 50
_MOST_STEPS = 1_000_000  # no flow has more: the place of a page of steps is below it
_ASKED_STEPS = 10  # of those that wait for a signal


async def show(visit: Visit) -> Response:
    """Show a flow. The steps of a large one are read in the background; until then the page says
    so."""
    id = visit.part("id")
    aged = await _flow(visit, id)
    flow = aged.value
    if flow is None:
        return visit.render("flow.html", flow=None, id=id, aged=aged)
    steps = _chosen(flow, visit.query("state"), visit.query("task"))
    place = visit.number("from", 1, _MOST_STEPS) - 1
    return visit.render(
        "flow.html",
        flow=flow,
        id=id,
        aged=aged,
        graph=Markup(flow_graph(flow, visit.now, link=_link(visit, flow))),  # noqa: S704 - escaped
        states=counted_states(flow.steps),
        steps=steps[place : place + _PAGE_STEPS],
        matching=len(steps),
        place=place,
        more=place + _PAGE_STEPS + 1 if place + _PAGE_STEPS < len(steps) else None,
        less=max(place - _PAGE_STEPS, 0) + 1 if place else None,
        asking=await _asking(visit, flow),
        may_retry=any(step.state in _DEAD for step in flow.steps),
        may_cancel=flow.finished is None,
    )


_DEAD = (DisplayState.FAILED, DisplayState.CANCELLED)


async def _flow(visit: Visit, id: str) -> Aged[FlowRecord]:
    """The flow, if it has been read. Raises `NotHere` if there is none."""

    async def read() -> tuple[FlowRecord | None]:
        return (await visit.app.flow_run(id).get(),)

    aged = await visit.site.aged.get(("flow", id), read)
    if aged.value is not None and aged.value[0] is None:
        raise NotHere("There is no such flow: it never was, or it ended and was deleted.")
    return Aged(None if aged.value is None else aged.value[0], aged.age)


def _link(visit: Visit, flow: FlowRecord) -> "LinkOfNode":
    return LinkOfNode(visit, flow.id)


class LinkOfNode:
    """Returns where a box of the graph leads: to its job, or to the table of its steps."""

    def __init__(self, visit: Visit, id: str) -> None:
        self._visit, self._id = visit, id

    def __call__(self, node: FlowNode) -> str:
        if len(node.steps) == 1:
            return self._visit.url(f"/jobs/{node.steps[0].id}")
        return self._visit.url(f"/flows/{self._id}", task=node.steps[0].task) + "#steps"


def _chosen(flow: FlowRecord, state: str | None, task: str | None) -> Sequence[FlowStep]:
    """The steps in this state and of this task; all of them for None."""
    if state is None and task is None:
        return flow.steps
    return [
        step
        for step in flow.steps
        if (state is None or (step.state.value if step.state else "gone") == state)
        and (task is None or step.task == task)
    ]


async def _asking(visit: Visit, flow: FlowRecord) -> list[JobRecord]:
    """The first steps that wait for a signal. A step that waits and has run before waits for
    one."""
    waiting = [
        step.id
        for step in flow.steps
        if step.started is not None and step.state in (DisplayState.WAITING, DisplayState.SCHEDULED)
    ]
    jobs = [await visit.app.get(id) for id in waiting[:_ASKED_STEPS]]
    return [job for job in jobs if job is not None and job.waits_for]


async def act(visit: Visit) -> Response:
    """Cancel or retry the flow."""
    sent = await visit.form()
    verb, run = sent.get("act"), visit.app.flow_run(visit.part("id"))
    reason = sent.get("reason")
    with visit.acting(reason):
        match verb:
            case "cancel":
                steps = await run.cancel(reason)
                said = f"{counted(steps, 'step')} cancelled, or asked to stop."
            case "retry":
                steps = await run.retry(reason)
                said = f"{counted(steps, 'step')} queued again."
            case _:
                raise UsageError(f"act={verb!r}: use cancel or retry")
    if not steps:
        said = "Nothing to do: its steps have ended." if verb == "cancel" else "No step failed."
    return visit.done(said)
