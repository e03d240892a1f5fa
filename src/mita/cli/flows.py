"""Flows: `flows`, and what `show`, `cancel` and `retry` do with the id of a flow."""

from collections import Counter
from datetime import datetime
from typing import Any

from mita.errors import UsageError
from mita.model.outcome import Answer
from mita.model.record import DisplayState, FlowRecord
from mita.rules.flow import FLOW_TASK
from mita.rules.words import brief, clock, counted, first_line, length

from .argtypes import count
from .context import CommandContext, store_command
from .exits import NotFound
from .flow_tree import FlowTree
from .parser import Commands
from .screen import Report, listed, plain
from .table import Column, Table

_NEIGHBOUR_JOBS = 200  # jobs to look at for the shortest ids
FLOW_COMMANDS = ("cancel", "retry")  # which change all steps, if they are given the id of a flow
FLOW_COLUMNS = (
    "id",
    Column("name", drop_order=1, min_width=10),
    "state",
    Column("ended", right=True),
    Column("failed", right=True, drop_order=2),
    Column("age", right=True, drop_order=3),
    Column("took", right=True, drop_order=4),
)
_DONE = {"cancel": "cancelled, or asked to stop", "retry": "queued again"}
_NOTHING = {
    "cancel": "not cancelled: all of its steps have ended",
    "retry": "not queued again: none of its steps failed or was cancelled",
}


def add(commands: Commands) -> None:
    """Add the commands of this module to the parser."""
    flows = commands.add("flows", store_command(show_flows))
    flows.add_argument(
        "--limit", type=count, default=20, help="flows on one page (20; at most 1000)"
    )
    flows.add_argument(
        "--after", metavar="CURSOR", help="continue after this id, the last one of the page before"
    )


async def show_flows(context: CommandContext) -> Report:
    """Run `mita flows`."""
    page = await context.app.flows(after=context.options.after, limit=context.options.limit)
    data = {"flows": [_without_steps(flow) for flow in page.flows], "after": page.after}
    if not page.flows:
        return Report(data, "no flows")
    now = await context.now()
    short = await context.short_ids([flow.id for flow in page.flows], _NEIGHBOUR_JOBS)
    rows = [
        (
            short[flow.id],
            flow.name,
            flow.state.value,
            _ended(flow),
            flow.failed,
            brief(now - flow.created),
            "" if flow.finished is None else brief(flow.finished - flow.created),
        )
        for flow in page.flows
    ]
    more = ["", f"more: add --after {page.after}"] if page.after else []
    return Report(data, Table(FLOW_COLUMNS, rows), *more)


def _without_steps(flow: FlowRecord) -> dict[str, Any]:
    data: dict[str, Any] = plain(flow)
    del data["steps"]
    return data


def _ended(flow: FlowRecord) -> str:
    return f"{'' if flow.exact else '≥ '}{flow.ended:,} of {flow.total:,}"


# ---------------------------------------------------------------- one flow


async def is_flow(context: CommandContext, id: str) -> bool:
    """Whether this is the id of a flow."""
    [job] = await (await context.store()).find([id])
    return job is not None and job.task == FLOW_TASK


async def show_flow(context: CommandContext, id: str) -> Report:
    """Run `mita show` for a flow."""
    flow = await context.app.flow_run(id).get()
    if flow is None:
        raise NotFound(f"flow {id} was deleted just now")
    now = await context.now()
    short = (await context.short_ids([id], _NEIGHBOUR_JOBS))[id]
    columns = (
        Column("step", min_width=20, drop_order=1),
        "state",
        Column("took", right=True),
        Column("note", drop_order=2),
    )
    return Report(
        {"flow": plain(flow)},
        *_facts(flow, now),
        "",
        Table(columns, FlowTree(flow, now).rows()),
        "",
        f"mita show {short}.N  shows step N",
        f"mita why {short}.N   says why it waits",
    )


def _facts(flow: FlowRecord, now: datetime) -> list[str]:
    facts = {
        "id": flow.id,
        "flow": flow.name,
        "state": flow.state.value,
        "steps": _states(flow),
        "created": clock(flow.created, now),
        "finished": clock(flow.finished, now),
        "took": "" if flow.finished is None else length(flow.finished - flow.created),
        "error": first_line(flow.error),
    }
    return [f"{name:<10}  {value}" for name, value in facts.items() if value]


def _states(flow: FlowRecord) -> str:
    """How many steps there are, and how many of them in each state."""
    states = Counter(step.state for step in flow.steps)
    named = [f"{states[state]:,} {state.value}" for state in DisplayState if states[state]]
    named += [f"{states[None]:,} gone"] if states[None] else []
    added = len(flow.steps) - flow.total
    more = f" and {added:,} that its handlers added" if added > 0 else ""
    return f"{flow.total:,}{more}: {listed(named)}"


async def change_flow(context: CommandContext, id: str, reason: str) -> tuple[Answer, str]:
    """Cancel or retry a whole flow, as the command says. Returns the answer, and in words."""
    command, run = context.options.command, context.app.flow_run(id)
    if command == "cancel":
        steps = await run.cancel(reason)
    else:
        if context.options.at is not None or context.options.after is not None:
            raise UsageError(
                f"{id} is a flow, and its steps run again at once: leave out --at and --after, or "
                "retry one step"
            )
        steps = await run.retry(reason)
    if not steps:
        return Answer.TOO_LATE, _NOTHING[command]
    return Answer.DONE, f"flow: {counted(steps, 'step')} {_DONE[command]}"
