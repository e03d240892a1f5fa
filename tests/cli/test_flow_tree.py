"""The steps of a flow as a tree."""

from datetime import UTC, datetime, timedelta

from mita import DisplayState, FlowRecord, FlowStep
from mita.cli.flow_tree import FlowTree

FLOW = "a" * 32
NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
DONE = DisplayState.SUCCEEDED


def step(
    number: int,
    task: str,
    *after: tuple[int, int],
    state: DisplayState | None = DONE,
    error: str = "",
    flow: str = FLOW,
    added_by: str | None = None,
    always: bool = False,
) -> FlowStep:
    ended = state in (DONE, DisplayState.FAILED)
    started = NOW - 3 * SECOND if ended or state is DisplayState.RUNNING else None
    return FlowStep(
        number,
        f"{flow}.{number:06d}",
        task,
        "default",
        state,
        started,
        NOW - 2 * SECOND if ended else None,
        error,
        after,
        always,
        added_by,
        "gpu" if state is DisplayState.BLOCKED else None,
    )


def rows(*steps: FlowStep) -> list[tuple[str, str, str, str]]:
    flow = FlowRecord(
        id=FLOW, name="f", state=DONE, created=NOW, total=len(steps), steps=tuple(steps)
    )
    return FlowTree(flow, NOW).rows()


def tree(*steps: FlowStep) -> list[str]:
    return [row[0] for row in rows(*steps)]


def test_a_chain_is_a_list_however_long_it_is() -> None:
    steps = [step(n, "t", *([(n - 1, n - 1)] if n > 1 else [])) for n in range(1, 5001)]
    assert tree(*steps) == [f"{n} t" for n in range(1, 5001)]


def test_steps_side_by_side_are_branches_and_what_joins_them_follows() -> None:
    assert tree(
        step(1, "fetch"),
        step(2, "resize", (1, 1)),
        step(3, "resize", (1, 1)),
        step(4, "check", (3, 3)),
        step(5, "sum", (2, 2), (4, 4)),
        step(6, "tell", (5, 5)),
    ) == [
        "1 fetch",
        "├─ 2 resize",
        "└─ 3 resize",
        "   4 check",
        "5 sum",
        "6 tell",
    ]


def test_a_step_of_several_predecessors_is_there_once_and_names_them() -> None:
    found = rows(
        step(1, "a"),
        step(2, "b"),
        step(3, "c", state=DisplayState.RUNNING),
        step(4, "two", (1, 2)),
        step(5, "all", (1, 3), state=DisplayState.WAITING, always=True),
    )
    assert [row[0] for row in found] == ["├─ 1 a", "├─ 2 b", "└─ 3 c", "4 two", "5 all"]
    assert found[2][1:] == ("running", "for 3 s", "")
    assert found[3][1:] == ("succeeded", "1 s", "after 1-2")
    assert found[4][1:] == ("waiting", "", "after 1-3 · waits for 1 of 3 · always")


def test_a_step_after_one_and_what_follows_it_is_below_the_last() -> None:
    assert tree(
        step(1, "a"), step(2, "b", (1, 1)), step(3, "c", (1, 2)), step(4, "d", (1, 1), (3, 3))
    ) == ["1 a", "2 b", "3 c", "4 d"]


def test_branches_inside_branches() -> None:
    assert tree(
        step(1, "a"),
        step(2, "b", (1, 1)),
        step(3, "c", (1, 1)),
        step(4, "d", (2, 2)),
        step(5, "e", (2, 2)),
        step(6, "f", (4, 5)),
        step(7, "g", (3, 3), (6, 6)),
    ) == ["1 a", "├─ 2 b", "│  ├─ 4 d", "│  └─ 5 e", "│  6 f", "└─ 3 c", "7 g"]


def test_many_steps_are_folded_by_task_and_state() -> None:
    states = {17: DisplayState.FAILED, 18: DisplayState.RUNNING, 19: DisplayState.BLOCKED}
    members = [
        step(n, "resize", state=states.get(n, DONE), error="Boom" if n == 17 else "")
        for n in range(1, 10_001)
    ]
    found = rows(*members, step(10_001, "sum", (1, 10_000), state=DisplayState.WAITING))
    assert found == [
        ("└─ 19 resize", "blocked", "", "key gpu"),
        ("   18 resize", "running", "for 3 s", ""),
        ("   resize × 9,997", "succeeded", "avg 1 s", ""),  # noqa: RUF001
        ("   17 resize", "failed", "1 s", "Boom"),
        ("10001 sum", "waiting", "", "after 1-10000 · waits for 2 of 10,000"),
    ]


def test_many_chains_side_by_side_are_folded_step_by_step() -> None:
    steps = []
    for n in range(1, 41, 2):
        steps += [step(n, "fetch"), step(n + 1, "parse", (n, n))]
    numbers = tuple((n, n) for n in range(2, 41, 2))
    found = rows(*steps, step(41, "merge", *numbers), step(42, "tell"))
    assert [row[0] for row in found] == [
        "├─ fetch × 20",  # noqa: RUF001
        "│  parse × 20",  # noqa: RUF001
        "└─ 42 tell",
        "41 merge",
    ]
    assert found[3][3] == "after 2, 4, 6, 8, …"


def test_many_failures_are_one_line_with_the_first_of_them() -> None:
    members = [step(n, "t", state=DisplayState.FAILED, error=f"E{n}") for n in range(1, 31)]
    assert rows(*members) == [("t × 30", "failed", "avg 1 s", "step 1: E1")]  # noqa: RUF001


def test_steps_that_were_added_are_below_the_step_that_added_them() -> None:
    added = f"{'b' * 32}.added"
    adder = f"{FLOW}.000001"
    assert tree(
        step(1, "scan"),
        step(2, "tell", (1, 1)),
        step(1, "count", flow=added, added_by=adder),
        step(2, "count", flow=added, added_by=adder),
        step(3, "total", (1, 2), flow=added, added_by=adder),
    ) == ["1 scan", "├─ 2 tell", "├─ +1 count", "└─ +2 count", "+3 total"]


def test_a_step_that_is_gone_has_no_task() -> None:
    gone = step(1, "", state=None)
    assert rows(gone, step(2, "b", (1, 1), state=DisplayState.WAITING))[0][:2] == ("1", "gone")


def test_branches_that_are_too_deep_are_counted() -> None:
    """Each step has two that follow it, and one of those goes on."""
    steps, last = [step(1, "a")], 1
    for n in range(2, 200, 2):
        steps += [step(n, "b", (last, last)), step(n + 1, "c", (last, last))]
        last = n
    found = tree(*steps)
    assert any("branches are deeper" in line for line in found)
    assert max(map(len, found)) < 80
