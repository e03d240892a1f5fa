from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mita.model.record import DisplayState, FlowRecord, FlowStep
from mita.web.svg import flow_graph
from mita.web.svg.flow_groups import nodes_of
from mita.web.svg.flow_layout import NODE_HEIGHT_PIXELS, NODE_WIDTH_PIXELS, flow_layout
from tests.counting import calls_counted

from .reading import NASTY, picture, with_class, words

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
Rows = tuple[tuple[int, int], ...]
DONE, FAILED = DisplayState.SUCCEEDED, DisplayState.FAILED
READY, WAITING = DisplayState.READY, DisplayState.WAITING


def step(
    number: int,
    task: str,
    after: Rows = (),
    state: DisplayState | None = WAITING,
    error: str = "",
    added_by: str | None = None,
) -> FlowStep:
    ran = state in (DONE, FAILED)
    return FlowStep(
        number,
        f"{added_by or 'F'}.{number}",
        task,
        "images",
        state,
        NOW - timedelta(seconds=9) if ran else None,
        NOW - timedelta(seconds=5) if ran else None,
        error,
        after,
        added_by=added_by,
    )


def flow(*steps: FlowStep) -> FlowRecord:
    return FlowRecord(
        id="F",
        name="album",
        state=DisplayState.RUNNING,
        created=NOW,
        total=len(steps),
        steps=steps,
    )


def edges(record: FlowRecord) -> set[tuple[str, str]]:
    """The edges of the graph, as the tasks of their ends."""
    nodes = nodes_of(record)
    return {(nodes[before].task, node.task) for node in nodes for before in node.after}


def album(images: int) -> FlowRecord:
    """List the images, resize each, upload each, then write one mail."""
    first, last = images + 2, 2 * images + 1
    return flow(
        step(1, "list", (), DONE),
        *(
            step(n, "resize", ((1, 1),), FAILED if n < 5 else DONE, "OSError: full" * (n < 5))
            for n in range(2, images + 2)
        ),
        *(step(n, "upload", ((n - images, n - images),)) for n in range(first, last + 1)),
        step(last + 1, "mail", ((first, last),)),
    )


# ---------------------------------------------------------------- folding


def test_a_few_equal_steps_are_boxes_of_their_own() -> None:
    nodes = nodes_of(album(12))
    assert [len(node.steps) for node in nodes] == [1] * 26
    assert nodes[13].after == {1}, "each upload comes after its own resize"
    assert nodes[25].after == set(range(13, 25))


def test_many_equal_steps_are_one_box() -> None:
    nodes = nodes_of(album(13))
    assert [(node.task, len(node.steps)) for node in nodes] == [
        ("list", 1),
        ("resize", 13),
        ("upload", 13),
        ("mail", 1),
    ]
    assert edges(album(13)) == {("list", "resize"), ("resize", "upload"), ("upload", "mail")}
    assert nodes[1].states() == {"failed": 3, "succeeded": 10}


def test_a_box_of_many_says_how_many_are_done() -> None:
    drawn = picture(flow_graph(album(10_000), NOW), "flow-graph")
    texts = [one.text for one in drawn.iter("text")]
    assert "resize × 10,000" in texts  # noqa: RUF001
    assert "9,997 done, 3 failed" in texts
    said = [words(one) for one in with_class(drawn, "node")]
    assert said[1] == (
        "10,000 steps, resize: 9,997 done, 3 failed, 4 s each on average, "
        "for example step 2: OSError: full"
    )
    assert words(drawn) == (
        "graph of flow album: 20,002 steps in 4 boxes: 10,001 waiting, 9,998 done, 3 failed"
    )


def test_a_long_row_of_one_task_is_one_box() -> None:
    row = flow(
        step(1, "begin", (), DONE),
        *(step(n, "tick", ((n - 1, n - 1),)) for n in range(2, 502)),
        step(502, "end", ((501, 501),)),
    )
    assert [(node.task, len(node.steps), node.is_row) for node in nodes_of(row)] == [
        ("begin", 1, False),
        ("tick", 500, True),
        ("end", 1, False),
    ]
    assert edges(row) == {("begin", "tick"), ("tick", "end")}


def test_a_short_row_is_not_folded() -> None:
    row = flow(step(1, "tick"), *(step(n, "tick", ((n - 1, n - 1),)) for n in range(2, 13)))
    nodes = nodes_of(row)
    assert [sorted(node.after) for node in nodes] == [[], *([n] for n in range(11))]


def test_different_tasks_side_by_side_are_never_folded() -> None:
    wide = flow(*(step(n, f"task{n}") for n in range(1, 31)))
    assert len(nodes_of(wide)) == 30


def test_steps_that_a_handler_added_follow_it() -> None:
    grown = flow(
        step(1, "plan", (), DONE),
        step(2, "end", ((1, 1),)),
        step(1, "part", added_by="F.1"),
        step(2, "sum", ((1, 1),), added_by="F.1"),
    )
    assert edges(grown) == {("plan", "end"), ("plan", "part"), ("part", "sum")}


def test_a_deleted_step_is_shown_as_gone() -> None:
    drawn = picture(flow_graph(flow(step(1, "", (), None)), NOW), "flow-graph")
    assert words(next(with_class(drawn, "node"))) == "step 1, (deleted): gone"


def test_many_steps_are_read_once() -> None:
    """A flow of ten times as many steps takes about ten times as many calls, and few of them."""
    counts = []
    for record in (album(1_000), album(10_000)):
        with calls_counted() as calls:
            flow_graph(record, NOW)
        counts.append(calls[0])
    assert counts[1] < 11 * counts[0]
    assert counts[1] / 20_002 < 12


# ---------------------------------------------------------------- geometry


@st.composite
def graphs(draw: st.DrawFn) -> list[set[int]]:
    size = draw(st.integers(1, 30))
    return [
        draw(st.sets(st.integers(0, node - 1), max_size=4)) if node else set()
        for node in range(size)
    ]


@given(graphs())
def test_nodes_do_not_overlap_and_edges_go_down(before: list[set[int]]) -> None:
    layout = flow_layout(before)
    boxes = [(layout.spots[n].x - NODE_WIDTH_PIXELS / 2, layout.top(n)) for n in range(len(before))]
    for (x1, y1), (x2, y2) in combinations(boxes, 2):
        assert abs(x1 - x2) >= NODE_WIDTH_PIXELS or abs(y1 - y2) >= NODE_HEIGHT_PIXELS
    for x, y in boxes:
        assert x >= 0
        assert x + NODE_WIDTH_PIXELS <= layout.width
        assert y >= 0
        assert y + NODE_HEIGHT_PIXELS <= layout.height
    for path in layout.edges:
        tops = [layout.top(spot) for spot in path]
        assert tops == sorted(set(tops))
    assert len(layout.edges) == sum(map(len, before))
    bends = [(layout.spots[n].x, layout.top(n)) for n in range(len(before), len(layout.spots))]
    for x, y in bends:
        assert 0 <= x <= layout.width
        assert all(y != top or not left <= x <= left + NODE_WIDTH_PIXELS for left, top in boxes)


def test_branches_that_need_not_cross_do_not() -> None:
    #   0 → 2 → 4 and 1 → 3 → 5, in an order that would cross
    layout = flow_layout([set(), set(), {1}, {0}, {3}, {2}])
    x = [spot.x for spot in layout.spots]
    assert (x[0] < x[1]) == (x[3] < x[2]) == (x[4] < x[5])


def test_a_chain_is_one_column() -> None:
    layout = flow_layout([set(), {0}, {1}, {2}])
    assert len({spot.x for spot in layout.spots}) == 1
    assert layout.width < 360, "it fits on a phone"


def test_a_wide_layer_goes_on_below() -> None:
    layout = flow_layout([set() for _ in range(100)])
    assert layout.width < 1300


def test_everything_is_inside_the_picture() -> None:
    drawn = picture(flow_graph(album(5), NOW), "flow-graph")
    _, _, width, height = map(float, drawn.attrib["viewBox"].split())
    for one in drawn.iter("rect"):
        assert float(one.attrib["x"]) >= 0
        assert float(one.attrib["x"]) + float(one.attrib["width"]) <= width
        assert float(one.attrib["y"]) + float(one.attrib["height"]) <= height
    for one in drawn.iter("text"):
        assert 0 <= float(one.attrib["x"]) <= width
        assert 0 <= float(one.attrib["y"]) <= height


def test_a_graph_of_too_many_boxes_says_what_is_left_out() -> None:
    drawn = picture(
        flow_graph(flow(*(step(n, f"t{n}") for n in range(1, 1001))), NOW), "flow-graph"
    )
    assert len(list(with_class(drawn, "node"))) == 400
    assert "… 600 more steps are not drawn" in [one.text for one in drawn.iter("text")]


# ---------------------------------------------------------------- text


def test_a_box_has_its_state_as_a_shape_and_a_word() -> None:
    for state in DisplayState:
        drawn = picture(flow_graph(flow(step(1, "send", (), state)), NOW), "flow-graph")
        [mark] = with_class(drawn, "mark")
        assert f"state-{state.value}" in mark.attrib["class"]
        assert any((one.text or "").startswith(state.value) for one in drawn.iter("text"))


def test_boxes_lead_to_their_jobs() -> None:
    record = album(20)
    drawn = picture(
        flow_graph(record, NOW, link=lambda node: f"/jobs/{node.steps[0].id}?a=1&b=2"),
        "flow-graph",
    )
    assert next(one.attrib["href"] for one in drawn.iter("a")) == "/jobs/F.1?a=1&b=2"
    assert drawn.attrib["role"] == "group", "an image has no links"


@pytest.mark.parametrize("task", [NASTY, "x" * 300, "ש" * 40])
def test_text_is_escaped_and_cut(task: str) -> None:
    record = flow(step(1, task, (), FAILED, NASTY), *(step(n, task) for n in range(2, 30)))
    markup = flow_graph(record, NOW, link=lambda _: f"/x?{NASTY}")
    assert "<script" not in markup
    drawn = picture(markup, "flow-graph")
    assert all(len(one.text or "") <= 30 for one in drawn.iter("text"))


def test_a_flow_without_steps_has_no_picture() -> None:
    assert flow_graph(flow(), NOW) == ""
