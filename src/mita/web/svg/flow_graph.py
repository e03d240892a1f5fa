"""The graph of a flow: its steps as boxes, with an arrow from each to what comes after it."""

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import pairwise

from mita.model.record import DisplayState, FlowRecord

from .flow_groups import FlowNode, counted_states, nodes_of
from .flow_layout import (
    MARGIN_PIXELS,
    NODE_HEIGHT_PIXELS,
    NODE_WIDTH_PIXELS,
    FlowLayout,
    flow_layout,
)
from .markup import cut, element, length_text, number, text_of, title
from .shapes import shape

_MOST_NODES = 400
_TASK_LETTERS = 22  # that fit into a node
_LINE_LETTERS = 29
_NOTE_HEIGHT_PIXELS = 24
_BAR_HEIGHT_PIXELS = 3
_DONE = "done"  # what a succeeded step is called where there is little room


def flow_graph(
    flow: FlowRecord,
    now: datetime,
    *,
    link: Callable[[FlowNode], str] | None = None,
) -> str:
    """The steps of a flow. More than 12 equal ones, side by side or in a row, are one box with
    their number and their states. `link` returns the address that a box leads to; empty for
    none. Of a flow that has more than 400 boxes even so, the first 400 are drawn, and a line says
    how many steps are left out. Empty if the flow has no steps."""
    found = nodes_of(flow)
    nodes, left = found[:_MOST_NODES], sum(len(node.steps) for node in found[_MOST_NODES:])
    if not nodes:
        return ""
    layout = flow_layout([node.after for node in nodes])
    edges = "".join(_edge(layout, path, nodes) for path in layout.edges)
    boxes = "".join(_box(layout, at, node, now, link) for at, node in enumerate(nodes))
    note = "" if not left else _note(layout, f"… {left:,} more steps are not drawn")
    height = layout.height + (_NOTE_HEIGHT_PIXELS if left else 0)
    return element(
        "svg",
        title(_described(flow, nodes, left)) + edges + boxes + note,
        class_="flow-graph",
        width=layout.width,
        height=height,
        viewBox=f"0 0 {number(layout.width)} {number(height)}",
        role="group" if link is not None else "img",
        aria_label=_described(flow, nodes, left),
    )


# ---------------------------------------------------------------- boxes


def _box(
    layout: FlowLayout,
    at: int,
    node: FlowNode,
    now: datetime,
    link: Callable[[FlowNode], str] | None,
) -> str:
    x = layout.spots[at].x - NODE_WIDTH_PIXELS / 2
    y, states = layout.top(at), node.states()
    state, is_many = next(iter(states)), len(node.steps) > 1
    name = f"{node.task} × {len(node.steps):,}" if is_many else node.task  # noqa: RUF001
    inside = (
        title(_words(node, states, now))
        + (_frame(x + 4, y + 4, "node-shadow") if is_many else "")
        + _frame(x, y, "node-box")
        + shape(state, x + 9, y + 9)
        + _text(x + 27, y + 19, 13, "node-task", _name(node, name))
        + _text(x + 27, y + 36, 11, "node-state", cut(_second(node, states, now), _LINE_LETTERS))
        + (_shares(x, y, states, len(node.steps)) if is_many else "")
    )
    address = "" if link is None else link(node)
    group = element("g", inside, class_=f"node state-{state}")
    return element("a", group, href=address) if address else group


def _name(node: FlowNode, name: str) -> str:
    """The task, shortened in its middle part so that the number of steps stays."""
    if len(node.steps) == 1:
        return cut(name, _TASK_LETTERS)
    count = f" × {len(node.steps):,}"  # noqa: RUF001
    return cut(node.task, _TASK_LETTERS - len(count)) + count


def _frame(x: float, y: float, css: str) -> str:
    return element(
        "rect", x=x, y=y, width=NODE_WIDTH_PIXELS, height=NODE_HEIGHT_PIXELS, rx=5, class_=css
    )


def _text(x: float, y: float, size: int, css: str, words: str) -> str:
    return element("text", text_of(words), x=x, y=y, font_size=size, class_=css)


def _shares(x: float, y: float, states: dict[str, int], total: int) -> str:
    """How many steps are in which state, as a bar at the bottom of the box."""
    parts, room = [], NODE_WIDTH_PIXELS - 12
    at, bottom = x + 6, y + NODE_HEIGHT_PIXELS - _BAR_HEIGHT_PIXELS - 3
    for state, count in reversed(states.items()):
        width = room * count / total
        parts.append(
            element(
                "rect",
                x=at,
                y=bottom,
                width=width,
                height=_BAR_HEIGHT_PIXELS,
                class_=f"share state-{state}",
            )
        )
        at += width
    return "".join(parts)


# ---------------------------------------------------------------- arrows


def _edge(layout: FlowLayout, path: Sequence[int], nodes: Sequence[FlowNode]) -> str:
    """A curve from the bottom of a box to the top of another one, through its bends."""
    points = [(layout.spots[path[0]].x, layout.top(path[0]) + NODE_HEIGHT_PIXELS)]
    for spot in path[1:-1]:
        x, top = layout.spots[spot].x, layout.top(spot)
        points += [(x, top), (x, top + NODE_HEIGHT_PIXELS)]
    points.append((layout.spots[path[-1]].x, layout.top(path[-1]) - 5))
    drawn = f"M{number(points[0][0])} {number(points[0][1])}"
    for (x1, y1), (x2, y2) in pairwise(points):
        middle = number((y1 + y2) / 2)
        drawn += f"C{number(x1)} {middle} {number(x2)} {middle} {number(x2)} {number(y2)}"
    x, y = points[-1]
    head = f"M{number(x)} {number(y + 5)}l-4 -6h8Z"
    is_done = set(nodes[path[0]].states()) == {DisplayState.SUCCEEDED.value}
    css = "edge done" if is_done else "edge"
    return element(
        "g",
        element("path", d=drawn, fill="none", class_="edge-line")
        + element("path", d=head, class_="edge-head"),
        class_=css,
        aria_hidden="true",
    )


# ---------------------------------------------------------------- words


def _second(node: FlowNode, states: dict[str, int], now: datetime) -> str:
    """The second line of a box: the state and how long it took, or how many are in which state."""
    if len(node.steps) > 1:
        return ", ".join(f"{count:,} {_called(state)}" for state, count in _by_progress(states))
    [step] = node.steps
    took = node.took(now)
    parts = [next(iter(states)), "" if took is None else length_text(took)]
    parts += [f"+{step.number}" if step.added_by else f"step {step.number}"]
    return " · ".join(part for part in parts if part)


def _by_progress(states: dict[str, int]) -> list[tuple[str, int]]:
    """Done first, then what failed, then the others."""
    first = (DisplayState.SUCCEEDED.value, DisplayState.FAILED.value)
    return sorted(states.items(), key=lambda one: first.index(one[0]) if one[0] in first else 2)


def _called(state: str) -> str:
    return _DONE if state == DisplayState.SUCCEEDED.value else state


def _words(node: FlowNode, states: dict[str, int], now: datetime) -> str:
    """Everything about a box, for screen readers and while the pointer rests on it."""
    took = node.took(now)
    if len(node.steps) == 1:
        [step] = node.steps
        parts = [f"step {step.number}, {node.task}: {next(iter(states))}"]
        parts += [] if took is None else [f"ran for {length_text(took)}"]
        parts += [f"waits at key {step.blocked_at}"] if step.blocked_at else []
        parts += ["runs however the steps before it end"] if step.always else []
        parts += [step.error] if step.error else []
        return ", ".join(parts)
    counts = ", ".join(f"{count:,} {_called(state)}" for state, count in _by_progress(states))
    row = " in a row" if node.is_row else ""
    average = "" if took is None else f", {length_text(took)} each on average"
    first = next((step for step in node.steps if step.error), None)
    error = "" if first is None else f", for example step {first.number}: {first.error}"
    return f"{len(node.steps):,} steps{row}, {node.task}: {counts}{average}{error}"


def _described(flow: FlowRecord, nodes: Sequence[FlowNode], left: int) -> str:
    states = sorted(counted_states(flow.steps).items(), key=lambda one: -one[1])
    said = ", ".join(f"{count:,} {_called(state)}" for state, count in states)
    more = f"; {left:,} are not drawn" if left else ""
    size = f"{len(flow.steps):,} steps in {len(nodes):,} boxes"
    return f"graph of flow {flow.name}: {size}: {said}{more}"


def _note(layout: FlowLayout, words: str) -> str:
    return _text(MARGIN_PIXELS, layout.height + 12, 12, "tick", words)
