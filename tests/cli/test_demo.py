"""`mita demo`: it shows each feature, and fails if one does not work."""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mita.cli.demo.flow_steps import approved
from mita.cli.demo.run import DemoRun, check
from mita.cli.demo.steps import STEPS, DemoStep
from tests.waiting import until

from .conftest import Run


def test_the_demo_runs_without_a_terminal(shell: Run) -> None:
    said = shell("demo", within=60)
    assert said.code == 0, said.out + said.err
    assert said.err == ""
    assert "\x1b" not in said.out
    assert max(map(len, said.out.splitlines())) <= 100
    assert all(f"\n{step.title} " in said.out for step in STEPS)
    for event in (
        "enqueued",
        "runs",
        "succeeded",
        "retried",
        "rescheduled",
        "blocked",
        "repeat",
        "failed",
        "revived",
        "cancelled",
        "waiting",
        "signalled",
        "ended",
    ):
        assert re.search(rf"^ *\d+\.\d\d s  {event} ", said.out, re.MULTILINE), event
    assert re.search(r"^fetch +3 +2 +0 +0 +succeeded$", said.out, re.MULTILINE)
    assert re.search(r"^report +3 +0 +2 +0 +succeeded$", said.out, re.MULTILINE)
    assert re.search(r"^parcel +3 +0 +0 +0 +failed, retried, succeeded$", said.out, re.MULTILINE)
    assert re.search(r"^page 3 +2 +0 +0 +0 +failed, retried, succeeded$", said.out, re.MULTILINE)
    assert re.search(r"^total +1 +0 +0 +0 +cancelled, retried, succeeded$", said.out, re.MULTILINE)
    assert re.search(r"^article +2 +0 +1 +0 +succeeded$", said.out, re.MULTILINE)
    assert re.search(
        r"mita signal [0-9a-f]{10} approval true --url sqlite:///\S+$", said.out, re.MULTILINE
    )
    times = [float(time) for time in re.findall(r"^ *(\d+\.\d\d) s ", said.out, re.MULTILINE)]
    assert times[-1] < 120


async def _too_much(demo: DemoRun) -> None:
    job = demo.watch(await demo.tasks.greet.enqueue("Ada"), "Ada")
    [record] = await demo.ended(job)
    check(record.attempts == 5, "the greeting should have failed five times")


async def _short(demo: DemoRun) -> None:
    demo.watch(await demo.tasks.greet.enqueue("Ada"), "Ada", "to run now")
    await demo.ended(*demo.names)


def use_one_step(
    monkeypatch: pytest.MonkeyPatch, step: Callable[[DemoRun], Awaitable[None]]
) -> None:
    monkeypatch.setattr("mita.cli.demo.STEPS", (DemoStep("Now.", "A job runs.", step),))


def test_a_failed_check_fails_the_demo(mita: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    use_one_step(monkeypatch, _too_much)
    said = mita("demo")
    assert said.code == 1
    assert "failed: the greeting should have failed five times" in said.err
    assert "runs         Ada" in said.out


def test_a_missing_event_fails_the_demo(mita: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def waits(demo: DemoRun) -> None:
        monkeypatch.setattr("mita.cli.demo.run.STEP_TIMEOUT_S", 0.1)
        await demo.ended(demo.watch(await demo.tasks.greet.after(60).enqueue("Ada"), "Ada"))

    use_one_step(monkeypatch, waits)
    said = mita("demo")
    assert (said.code, "Ada should have ended by now" in said.err) == (1, True)


def test_the_viewer_answers_with_the_command_that_the_demo_prints(
    mita: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another process, as in another terminal; the demo waits as long as it takes."""
    said: list[str] = []

    async def type_it() -> None:
        await until(lambda: said)
        command = said[0].replace(" true ", " false ").split(" signal ", 1)[1].split()
        typed = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "mita", "signal", *command
        )
        assert await typed.wait() == 0

    async def step(demo: DemoRun) -> None:
        demo.patience_s = 3600.0
        demo.feed.say = lambda line: said.append(line) if " signal " in line else None  # type: ignore[method-assign]
        await asyncio.gather(approved(demo), type_it())

    use_one_step(monkeypatch, step)
    shown = mita("demo")
    assert shown.code == 0, shown.err
    assert "ended        article     the draft is refused" in shown.out


def test_the_file_of_the_demo_can_be_kept_and_inspected(
    mita: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_one_step(monkeypatch, _short)
    assert mita("demo", "--keep", "demo.db").code == 0
    assert len(mita("jobs", "--url", "sqlite:///demo.db", "--json").data["jobs"]) == 1
    again = mita("demo", "--keep", "demo.db")
    assert (again.code, "is there already" in again.err) == (2, True)


def test_the_demo_prints_json_on_request(mita: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    use_one_step(monkeypatch, _short)
    data = mita("demo", "--json").data
    assert data["jobs"] == [
        {
            "job": "Ada",
            "runs": 1,
            "attempts": 0,
            "reschedules": 0,
            "busy": 0,
            "outcome": "succeeded",
        }
    ]
    assert [event["event"] for event in data["events"]] == ["enqueued", "runs", "succeeded"]
