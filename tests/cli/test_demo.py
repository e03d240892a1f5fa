"""`mita demo`: it shows what it says, and fails when it cannot."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mita.cli.demo.acts import ACTS, DemoAct
from mita.cli.demo.stage import Stage, expect

from .conftest import Run


def test_the_demo_plays_without_a_terminal(shell: Run) -> None:
    said = shell("demo", within=60)
    assert said.code == 0, said.out + said.err
    assert said.err == ""
    assert "\x1b" not in said.out
    assert max(map(len, said.out.splitlines())) <= 100
    assert all(f"\n{act.title} " in said.out for act in ACTS)
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
    ):
        assert re.search(rf"^ *\d+\.\d\d s  {event} ", said.out, re.MULTILINE), event
    assert re.search(r"^fetch +3 +2 +0 +0 +succeeded$", said.out, re.MULTILINE)
    assert re.search(r"^report +3 +0 +2 +0 +succeeded$", said.out, re.MULTILINE)
    assert re.search(
        r"^parcel +3 +0 +0 +0 +failed, brought back, succeeded$", said.out, re.MULTILINE
    )
    times = [float(time) for time in re.findall(r"^ *(\d+\.\d\d) s ", said.out, re.MULTILINE)]
    assert times[-1] < 120


async def _too_much(stage: Stage) -> None:
    job = stage.cast(await stage.tasks.greet.enqueue("Ada"), "Ada")
    [record] = await stage.ended(job)
    expect(record.attempts == 5, "the greeting should have failed five times")


async def _short(stage: Stage) -> None:
    stage.cast(await stage.tasks.greet.enqueue("Ada"), "Ada", "to run now")
    await stage.ended(*stage.names)


def play(monkeypatch: pytest.MonkeyPatch, act: Callable[[Stage], Awaitable[None]]) -> None:
    monkeypatch.setattr("mita.cli.demo.ACTS", (DemoAct("Now.", "A job runs.", act),))


def test_a_promise_that_is_not_kept_fails_the_demo(
    mita: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, _too_much)
    said = mita("demo")
    assert said.code == 1
    assert "did not go as promised: the greeting should have failed five times" in said.err
    assert "runs         Ada" in said.out


def test_what_does_not_come_fails_the_demo(mita: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def waits(stage: Stage) -> None:
        monkeypatch.setattr("mita.cli.demo.stage.PROMISE_TIMEOUT_S", 0.1)
        await stage.ended(stage.cast(await stage.tasks.greet.after(60).enqueue("Ada"), "Ada"))

    play(monkeypatch, waits)
    said = mita("demo")
    assert (said.code, "Ada should have ended by now" in said.err) == (1, True)


def test_its_file_can_be_kept_and_looked_at(
    mita: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, _short)
    assert mita("demo", "--keep", "demo.db").code == 0
    assert len(mita("jobs", "--url", "sqlite:///demo.db", "--json").data["jobs"]) == 1
    again = mita("demo", "--keep", "demo.db")
    assert (again.code, "is there already" in again.err) == (2, True)


def test_it_can_answer_in_json(mita: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, _short)
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
