"""`signal`, and what `show` and `why` say of a handler that sleeps or waits."""

import io
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from tests.waiting import wait_until

from .conftest import Run

Put = Callable[..., str]
Work = Callable[[], None]


@pytest.fixture
def waiting(mita: Run, enqueue: Put, work_off: Work) -> str:
    """A job that waits for its approval."""
    id = enqueue("onboard", "Ada")

    def waits() -> bool:
        work_off()
        return bool(mita("show", id, "--json").data["job"]["waits_for"])

    wait_until(waits)
    return id


def test_a_signal_ends_the_wait(mita: Run, waiting: str, work_off: Work) -> None:
    said = mita("signal", waiting, "approval", '{"yes": true}')
    assert (said.code, said.out) == (0, f"{waiting}  signalled: its handler goes on\n")
    work_off()
    job = mita("show", waiting, "--json").data["job"]
    assert (job["state"], job["result"]) == ("succeeded", "hello Ada: {'yes': True}")
    assert job["signals"] == [{"name": "approval", "value": {"yes": True}, "timed_out": False}]
    assert job["waits_for"] == []


def test_an_id_may_be_short_and_the_answer_is_one_document(mita: Run, waiting: str) -> None:
    said = mita("signal", waiting[:30], "approval", "--json")
    assert said.data == {"id": waiting, "signal": "approval", "answer": "done"}


def test_a_value_is_read_from_stdin(
    mita: Run, waiting: str, work_off: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("[1, 2]\n"))
    assert mita("signal", waiting, "approval", "-").code == 0
    work_off()
    assert mita("show", waiting, "--json").data["job"]["result"] == "hello Ada: [1, 2]"


def test_without_a_value_it_is_null(mita: Run, waiting: str, work_off: Work) -> None:
    assert mita("signal", waiting, "approval").code == 0
    work_off()
    assert mita("show", waiting, "--json").data["job"]["result"] == "hello Ada: None"


def test_a_signal_that_is_not_waited_for_is_kept_and_the_answer_says_so(
    mita: Run, waiting: str, enqueue: Put
) -> None:
    said = mita("signal", waiting, "aproval", "1")
    assert said.code == 0
    assert "does not wait for 'aproval' now, the value is kept; it waits for 'approval'" in said.out
    early = mita("signal", enqueue("onboard", "Bo"), "approval", "1")
    assert early.out.endswith("does not wait for 'approval' now, the value is kept\n")


def test_a_name_is_signalled_once(mita: Run, waiting: str) -> None:
    mita("signal", waiting, "approval", "1")
    said = mita("signal", waiting, "approval", "2")
    assert said.code == 1
    assert "not signalled: 'approval' was signalled before" in said.out
    assert mita("signal", waiting, "approval", "3", "--json").data["answer"] == "taken"


def test_a_job_that_has_ended_is_not_signalled(mita: Run, enqueue: Put, work_off: Work) -> None:
    id = enqueue("greet", "Ada")
    work_off()
    said = mita("signal", id, "approval", "1")
    assert said.code == 1
    assert "not signalled: it is succeeded; only jobs that have not ended can be" in said.out


@pytest.mark.parametrize("value", ["yes", "{", "", "[1", "\udcff"])
def test_a_value_that_is_no_json(mita: Run, waiting: str, value: str) -> None:
    said = mita("signal", waiting, "approval", value)
    assert said.code == 2
    assert "the value of the signal is not JSON" in said.err
    assert "text needs quotes of its own" in said.err
    assert mita("show", waiting, "--json").data["job"]["waits_for"]


def test_names_and_ids_that_cannot_be(mita: Run, waiting: str) -> None:
    said = mita("signal", waiting, "", "1")
    assert (said.code, "signal key '' is not usable" in said.err) == (2, True)
    said = mita("signal", "f" * 32, "approval", "1")
    assert (said.code, "is in the store: it never was" in said.err) == (1, True)
    assert mita("signal", waiting).code == 2


def test_show_lists_steps_sleeps_and_waits(mita: Run, waiting: str, project: Path) -> None:
    job = mita("show", waiting, "--json").data["job"]
    [step] = job["steps"]
    assert (step["name"], step["value"]) == ("create account", "hello Ada")
    assert step["seconds"] >= 0
    assert datetime.fromisoformat(step["ended"]) >= datetime.fromisoformat(job["created"])
    [sleep] = job["sleeps"]
    assert sleep["name"] == "cool"
    assert datetime.fromisoformat(sleep["until"]) > datetime.fromisoformat(step["ended"])
    [wait] = job["waits_for"]
    assert (wait["name"], wait["until"]) == ("approval", job["due"])
    shown = mita("show", waiting).out
    for words in ("KIND", "step", "create account", "'hello Ada'", "sleep", "waits for  approval"):
        assert words in shown
    assert job["state"] == "scheduled"
    assert "steps" not in mita("jobs", "--json").data["jobs"][0]


def test_why_names_the_signal_and_the_command(mita: Run, waiting: str) -> None:
    said = mita("why", waiting)
    assert "it waits for the signal 'approval' (until " in said.out
    assert f"send it: mita signal {waiting} approval JSON" in said.out
    first = mita("why", waiting, "--json").data["reasons"][0]
    assert (first["code"], first["evidence"]["signal"]) == ("waits for signal", "approval")


def test_nothing_of_a_secret_task_is_shown(mita: Run, enqueue: Put, work_off: Work) -> None:
    id = enqueue("hidden")
    work_off()
    mita("signal", id, "code", '"s3cr3t"')
    work_off()
    shown, data = mita("show", id), mita("show", id, "--json")
    assert "s3cr3t" not in shown.out + data.out + mita("why", id).out
    assert "(withheld: task is secret)" in shown.out
    assert "when its signal comes" in shown.out
    job = data.data["job"]
    assert [step["name"] for step in job["steps"]] == ["look"]
    assert [wait["name"] for wait in job["waits_for"]] == ["more"]
    assert "at its signal" in mita("jobs").out


def test_hostile_names_cannot_control_the_terminal(mita: Run, waiting: str) -> None:
    assert mita("signal", waiting, "a\x1b[31m", "1").code == 2
    assert mita("signal", waiting, "plain", '"\\u001b[31m"').code == 0
    assert "\x1b" not in mita("show", waiting).out
