"""`--rate` and `--set`, and `mita bulk`."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.waiting import wait_until

from .conftest import Run

Put = Callable[..., str]
Work = Callable[[], None]
APP = ("--app", "shop:app")


@pytest.fixture
def dead(mita: Run, enqueue: Put, work_off: Work) -> list[str]:
    """Four failed jobs."""
    ids = [enqueue("charge", account, "-5") for account in "1234"]
    work_off()
    return ids


def states(mita: Run, ids: list[str]) -> list[str]:
    return [mita("show", id, "--json").data["job"]["state"] for id in ids]


def test_jobs_are_retried_at_a_rate(mita: Run, dead: list[str]) -> None:
    said = mita("retry", "--task", "charge", "--rate", "100/s", "--yes", "--reason", "it is back")
    assert said.code == 0, said
    assert "state     succeeded\ndone      4 of 4\nrate      100/s\n" in said.out
    assert said.out.endswith("4 jobs queued again\n")
    assert states(mita, dead) == ["ready"] * 4
    [run] = mita("bulk", "--json").data["bulks"]
    assert (run["verb"], run["rate"], run["answers"]) == ("retry", 100.0, {"done": 4})
    assert run["reason"].startswith("it is back; by ")
    assert run["filters"] == {"task": "charge", "state": "failed"}
    listed = mita("bulk").out.splitlines()
    assert listed[0].split() == ["ID", "VERB", "STATE", "DONE", "RATE", "AGE", "JOBS"]
    assert listed[1].endswith("task=charge state=failed")
    [line] = mita("audit", "--what", "retry", "--json").data["entries"]
    assert (line["target"], line["result"]) == ("jobs: task=charge", "started")
    assert line["details"] == {"rate": 100.0, "id": run["id"]}


def test_arguments_are_set_before_the_retry(mita: Run, dead: list[str], work_off: Work) -> None:
    said = mita("retry", "--task", "charge", "--set", "cents=500", "--set", "card=7", "--yes", *APP)
    assert (said.code, said.out.splitlines()[-1]) == (0, "4 jobs queued again")
    work_off()
    assert states(mita, dead) == ["succeeded"] * 4
    job = mita("show", dead[0], "--args", "--json").data["job"]
    assert job["arguments"] == {"account": 1, "cents": 500, "card": "7"}


def test_jobs_that_the_arguments_do_not_fit_are_counted(
    mita: Run, enqueue: Put, dead: list[str], work_off: Work
) -> None:
    enqueue("flaky")
    work_off()
    said = mita("retry", "--all", "--set", "cents=500", "--yes", *APP)
    assert said.code == 1
    assert "1 job refused, because the arguments do not fit: task 'flaky'" in said.out
    assert "4 jobs queued again" in said.out


def test_a_dry_run_counts_and_says_how_long_it_takes(mita: Run, dead: list[str]) -> None:
    said = mita("retry", "--all", "--rate", "1/m", "--dry-run")
    assert (said.code, said.out) == (0, "4 jobs match; at 0.02/s that takes 4 m\n")
    said = mita("cancel", "--all", "--rate", "5/s", "--yes")
    assert (said.code, said.out) == (0, "0 jobs match\n")
    assert mita("bulk").out == "no bulk runs\n"
    assert states(mita, dead) == ["failed"] * 4


def test_other_commands_have_a_rate_too(mita: Run, enqueue: Put, dead: list[str]) -> None:
    ids = [enqueue("greet", name) for name in ("Ada", "Bo")]
    moved = mita("reschedule", "--task", "greet", "--after", "1h", "--rate", "50/s", "--yes")
    assert moved.out.endswith("2 jobs rescheduled\n")
    assert states(mita, ids) == ["scheduled"] * 2
    ended = mita("cancel", "--task", "greet", "--rate", "50/s", "--yes", "--json")
    assert (ended.data["state"], ended.data["answers"]) == ("succeeded", {"done": 2})
    gone = mita("delete", "--state", "failed", "--rate", "50/s", "--yes")
    assert gone.out.endswith("4 jobs deleted\n")


def test_wrong_options_are_refused(mita: Run, dead: list[str]) -> None:
    for words, text in (
        (("retry", dead[0], "--rate", "5/s"), "are for jobs that filters choose"),
        (("retry", "--all", "--rate", "5"), "'5' is not a rate"),
        (("retry", "--all", "--rate", "0/s"), "'0/s' is not a rate"),
        (("retry", "--all", "--rate", "5/s"), "pass --yes to retry them"),
        (("retry", "--all", "--set", "cents=1", "--yes"), "which app has the tasks"),
        (("retry", "--all", "--set", "cents", "--yes", *APP), "'cents' is not NAME=VALUE"),
        (
            ("retry", "--task", "charge", "--set", "cents=x", "--yes", *APP),
            "parameter 'cents': Expected `int`",
        ),
        (("bulk", "--run"), "which bulk run?"),
    ):
        said = mita(*words)
        assert (said.code, text in said.err) == (2, True), said
    said = mita("bulk", dead[0])
    assert (said.code, "is no bulk run" in said.err) == (1, True)
    assert mita("bulk").out == "no bulk runs\n"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no Ctrl-C to send")
def test_ctrl_c_leaves_it_and_says_how_to_go_on(mita: Run, dead: list[str], project: Path) -> None:
    command = [sys.executable, "-m", "mita", "retry", "--all", "--rate", "2/s", "--yes"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )

    def done() -> int:
        runs = mita("bulk", "--json").data["bulks"]
        return int(runs[0]["done"]) if runs else 0

    wait_until(done)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, (out, err)
    [run] = mita("bulk", "--json").data["bulks"]
    assert run["state"] == "ready"
    assert "it waits: no worker serves the queue mita.bulk, or all queues" in out
    assert f"mita bulk {run['id']} --run" in out
    assert f"mita cancel {run['id']}" in out
    said = mita("bulk", run["id"][:30], "--run")
    assert (said.code, said.out.splitlines()[-1]) == (0, "4 jobs queued again")
    assert mita("bulk", run["id"], "--run").code == 0, "it has ended, and is shown"
    assert states(mita, dead) == ["ready"] * 4
