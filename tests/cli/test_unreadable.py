"""I15: every command shows a record that cannot be read, and none fails because of it."""

import json
import sqlite3
import stat
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Run

Put = Callable[..., str]
Work = Callable[[], None]

GARBAGE = [
    "options = 'garbage'",
    "headers = 'garbage'",
    "progress = 'garbage'",
    "task = cast(x'41ff42' as text)",
    "due = 9223372036854775807",
    "attempts = 'many'",
    "when_busy = 'explode'",
    "resource = x'00ff'",
]


@pytest.fixture
def broken(enqueue: Put, request: pytest.FixtureRequest) -> str:
    id = enqueue("charge", "1", "5")
    with sqlite3.connect("jobs.db") as file:
        file.execute(f"update _mita_job set {request.param} where id = ?", (id,))
    return id


@pytest.mark.parametrize("broken", GARBAGE, indirect=True)
def test_no_command_fails_because_of_an_unreadable_record(mita: Run, broken: str) -> None:
    for command in (
        "jobs",
        "queues",
        "workers",
        "top --once",
        "doctor",
        f"show {broken}",
        f"why {broken}",
    ):
        said = mita(*command.split())
        assert said.code == 0, (command, said.err)
    assert "UnreadableRecord" in mita("jobs").out
    assert "UnreadableRecord" in mita("show", broken).out
    assert f"mita show {broken} --raw FILE" in mita("show", broken).out
    assert f"1 record cannot be read: job {broken}" in mita("doctor").out


@pytest.mark.parametrize("broken", GARBAGE, indirect=True)
def test_a_worker_sets_an_unreadable_record_aside_and_continues(
    mita: Run, broken: str, enqueue: Put, work_off: Work
) -> None:
    healthy = enqueue("charge", "1", "5")  # of the same key
    work_off()
    states = {job["id"]: job["state"] for job in json.loads(mita("jobs", "--json").out)["jobs"]}
    assert states[healthy] == "succeeded"
    assert states[broken] in ("failed", "succeeded"), "a run does not need the unreadable part"


@pytest.mark.parametrize("broken", ["task = cast(x'41ff42' as text)"], indirect=True)
def test_the_bytes_of_an_unreadable_record_can_be_exported(
    mita: Run, broken: str, tmp_path: Path
) -> None:
    file = tmp_path / "record.json"
    assert mita("show", broken, "--raw", str(file)).code == 0
    document = json.loads(file.read_text())
    assert document["id"] == broken
    assert b64decode(document["parts"]["task"]["base64"]) == b"A\xffB"
    assert document["parts"]["queue"]["text"] == "billing"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = mita("show", broken, "--raw", str(file))
    assert again.code != 0
    assert "exists already" in again.err


@pytest.mark.parametrize("broken", ["task = cast(x'41ff42' as text)"], indirect=True)
def test_a_retry_says_why_an_unreadable_job_cannot_run_again(
    mita: Run, broken: str, work_off: Work
) -> None:
    work_off()
    said = mita("retry", broken)
    assert said.code != 0
    assert "its record cannot be read" in said.out + said.err
