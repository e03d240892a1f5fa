"""`flows`, and `show`, `why`, `cancel` and `retry` with the ids of flows and steps."""

import asyncio
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mita import Mita
from mita.cli.flows import FLOW_COLUMNS
from mita.cli.table import Table, draw
from tests.waiting import wait_until

from .conftest import Run
from .test_screen import on_a_terminal

Put = Callable[..., str]
Finish = Callable[[str], None]
Work = Callable[[], None]


@pytest.fixture
def flow(project: Path) -> Callable[..., str]:
    """Enqueue a flow: a greeting, charges after it, and a greeting after all of them. Returns its
    id."""

    async def enqueue(app: Mita, cents: tuple[int, ...], name: str) -> str:
        greet, charge = app.tasks["greet"], app.tasks["charge"]
        flow = app.flow(name)
        first = flow.add(greet.call("Ada"))
        parts = [flow.add(charge.call(n, one), after=[first]) for n, one in enumerate(cents)]
        flow.add(greet.call("Bo"), after=parts)
        async with app:
            return (await flow.enqueue()).id

    def put(*cents: int, name: str = "import") -> str:
        if str(project) not in sys.path:
            sys.path.insert(0, str(project))
        from shop import app  # type: ignore[import-not-found]

        return asyncio.run(enqueue(app, cents, name))

    return put


@pytest.fixture
def finish(mita: Run, work_off: Work) -> Callable[[str], None]:
    """Run all jobs until this flow has ended."""

    def ended(id: str) -> bool:
        work_off()
        return bool(mita("show", id, "--json").data["flow"]["state"] != "running")

    return lambda flow: wait_until(lambda: ended(flow))


def test_flows_are_listed_newest_first(mita: Run, flow: Put, finish: Finish) -> None:
    first = flow(1, -5, name="billing")
    finish(first)
    second = flow(1, 2)
    header, running, failed = mita("flows").out.splitlines()
    assert header.split() == ["ID", "NAME", "STATE", "ENDED", "FAILED", "AGE", "TOOK"]
    assert re.search(f"^{second}  import   running  +0 of 4  +0  ", running)
    assert re.search(f"^{first}  billing  failed  +4 of 4  +1  ", failed)
    data = mita("flows", "--json").data
    assert [one["id"] for one in data["flows"]] == [second, first]
    assert [(one["ended"], one["failed"], one["total"]) for one in data["flows"]] == [
        (0, 0, 4),
        (4, 1, 4),
    ]
    assert "steps" not in data["flows"][0]


def test_pages_of_flows(mita: Run, flow: Put) -> None:
    ids = [flow(1) for _ in range(3)]
    page = mita("flows", "--limit", "2", "--json").data
    assert [one["id"] for one in page["flows"]] == ids[:0:-1]
    assert f"more: add --after {page['after']}" in mita("flows", "--limit", "2").out
    [last] = mita("flows", "--after", page["after"], "--json").data["flows"]
    assert last["id"] == ids[0]
    assert mita("flows", "--after", "x y").code == 2
    assert mita("flows", "--limit", "0").code == 2


def test_no_flows(mita: Run) -> None:
    mita("migrate")
    assert mita("flows").out == "no flows\n"
    assert mita("flows", "--json").data == {"flows": [], "after": None}


def test_show_draws_the_tree_of_a_flow(mita: Run, flow: Put, finish: Finish) -> None:
    id = flow(1, -5)
    shown = mita("show", id[:20])
    assert shown.code == 0
    assert "steps       4: 3 waiting, 1 ready" in shown.out
    assert re.search(r"^4 greet +waiting +after 2-3 · waits for 2 of 2$", shown.out, re.MULTILINE)
    finish(id)
    lines = mita("show", id).out.splitlines()
    assert lines[:4] == [
        f"id          {id}",
        "flow        import",
        "state       failed",
        "steps       4: 2 succeeded, 1 failed, 1 cancelled",
    ]
    at = next(n for n, line in enumerate(lines) if line.startswith("STEP"))
    one, two, three, four = lines[at + 1 : at + 5]
    assert one.startswith("1 greet      succeeded  ")
    assert two.startswith("├─ 2 charge  succeeded  ")
    assert re.match(r"└─ 3 charge  failed +.* ValueError: cannot charge less than", three)
    assert four.split() == ["4", "greet", "cancelled", "after", "2-3"]
    flow_data = mita("show", id, "--json").data["flow"]
    assert [step["state"] for step in flow_data["steps"]] == [
        "succeeded",
        "succeeded",
        "failed",
        "cancelled",
    ]
    assert flow_data["steps"][3]["after"] == [[2, 3]]


def test_a_step_is_named_by_its_flow_and_its_number(mita: Run, flow: Put, finish: Finish) -> None:
    id = flow(-5)
    finish(id)
    step = f"{id[:20]}.3"
    shown = mita("show", step).out
    assert f"id          {id}.000003\n" in shown
    assert f"flow        step 3 of flow {id}\n" in shown
    why = mita("why", step)
    assert "because step 2 (charge) failed: ValueError" in why.out
    assert f"mita retry {id}.000002\n" in why.out
    assert mita("jobs", "--state", "cancelled", "--json").data["jobs"][0]["id"] == f"{id}.000003"


def test_why_of_a_flow_names_what_it_waits_for(mita: Run, flow: Put) -> None:
    id = flow(1, 2)
    said = mita("why", id)
    assert said.out.startswith("flow 'import' waits for 4 of 4 steps: step 1 (greet) is ready, ")
    assert "step 1 (greet): no worker is alive" in said.out
    reasons = mita("why", f"{id}.4", "--json").data["reasons"]
    assert reasons[0]["code"] == "waits for steps"
    assert reasons[0]["evidence"]["total"] == 2


def test_cancel_and_retry_of_a_whole_flow(mita: Run, flow: Put, finish: Finish) -> None:
    id = flow(1, 2)
    said = mita("cancel", id[:20], "--reason", "not today")
    assert (said.code, said.out) == (0, f"{id}  flow: 4 steps cancelled, or asked to stop\n")
    finish(id)
    assert mita("show", id, "--json").data["flow"]["state"] == "cancelled"
    assert "(not today; by " in mita("why", f"{id}.1").out
    again = mita("cancel", id)
    assert (again.code, again.out) == (1, f"{id}  not cancelled: all of its steps have ended\n")
    assert mita("cancel", id, "--json").data["answers"] == [{"id": id, "answer": "too late"}]

    said = mita("retry", id, "--after", "1h")
    assert (said.code, "leave out --at and --after" in said.err) == (2, True)
    assert mita("retry", id).out == f"{id}  flow: 4 steps queued again\n"
    finish(id)
    assert mita("show", id, "--json").data["flow"]["state"] == "succeeded"
    said = mita("retry", id)
    assert (said.code, "none of its steps failed or was cancelled" in said.out) == (1, True)


def test_ids_that_are_not_there_or_cannot_be(mita: Run, flow: Put) -> None:
    id = flow(1)
    for command in ("show", "why", "cancel", "retry"):
        said = mita(command, f"{id}.77")
        assert (said.code, f"no job {id}.77 is in the store" in said.err) == (1, True)
        said = mita(command, f"{id}.1234567")
        assert (said.code, "as in 01a1de75c0de.7" in said.err + said.out) == (2, True)
        assert mita(command, f"{id}.").code == 2
        assert mita(command, f".{id}").code == 2


def test_a_short_id_of_one_flow_is_not_ambiguous_and_of_two_it_is(mita: Run, flow: Put) -> None:
    ids = sorted([flow(1, 2, 3, 4, 5, 6, 7), flow(1)])
    same = next(n for n in range(32) if ids[0][n] != ids[1][n])
    said = mita("show", ids[0][:same])
    assert (said.code, said.err.count("mita.flow")) == (2, 2)
    assert mita("show", ids[0][: same + 1]).code == 0


@pytest.mark.parametrize("colour", [True, False])
def test_on_a_terminal_ids_are_short_and_lines_fit(
    flow: Put, finish: Finish, enqueue: Put, colour: bool
) -> None:
    id = flow(1, -5, *range(2, 40))
    enqueue("greet", "Cy")
    finish(id)
    more = {} if colour else {"NO_COLOR": "1"}
    for command in (["flows"], ["show", id], ["jobs", "--limit", "5"], ["jobs"], ["queues"]):
        out = on_a_terminal(*command, **more).replace("\r\n", "\n")
        assert ("\x1b[" in out) is colour
        plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
        assert max(map(len, plain.splitlines())) <= 80
        assert "Traceback" not in plain
        if command[0] == "jobs":
            assert re.search(rf"^{id[:12]}[0-9a-f]*\.\d+  ", plain, re.MULTILINE)
            assert id not in plain.split("more:")[0]
        if command[0] == "show":
            assert re.search(r"charge × 39 +succeeded +avg ", plain)  # noqa: RUF001
            assert re.search(r"3 charge +failed .*ValueError", plain)


def test_queues_show_waiting_jobs_only_if_there_are_some(
    mita: Run, flow: Put, enqueue: Put
) -> None:
    enqueue("greet", "Ada")
    assert "WAITING" not in mita("queues").out
    assert mita("queues", "--json").data["queues"][0]["waiting"] == 0
    flow(1)
    assert "WAITING" in mita("queues").out
    [billing, default] = mita("queues", "--json").data["queues"]
    assert (billing["waiting"], default["waiting"], default["ready"]) == (1, 1, 2)
    assert len(mita("jobs", "--state", "waiting", "--json").data["jobs"]) == 2
    assert "waiting  after others" in mita("jobs", "--state", "waiting").out


@pytest.mark.parametrize("width", [60, 80, 140])
def test_the_list_of_flows_fits_a_narrow_terminal(width: int) -> None:
    row = ("01a1e423f9bd", "a long name of a flow", "succeeded", "100,000 of 100,000", 12, "11 m")
    out = io.StringIO()
    draw(Table(FLOW_COLUMNS, [(*row, "3.56 s")]), out, width, colours=False)
    shown = out.getvalue()
    assert all(len(line) <= width for line in shown.splitlines()), shown
    assert "succeeded" in shown
    assert "100,000 of 100,000" in shown
    assert ("3.56 s" in shown) is (width > 80)
