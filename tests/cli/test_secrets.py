"""Secrets in arguments, results and error texts are shown nowhere: not in logs, timelines,
`show`, `jobs` or `why`."""

import asyncio
import importlib
import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until

from .conftest import Run
from .processes import Running

SECRET = "hunter2"
VAULT = f"""
from mita import Abort, Job, Mita, Reschedule, Retry, Unavailable

app = Mita("sqlite:///jobs.db")
QUICK = Retry(max_retries=1, waits=(0.0,))


@app.task(secret=True, retry=QUICK)
async def give(password: str) -> str:
    return password


@app.task(secret=True, retry=QUICK)
def fail(password: str) -> None:
    try:
        raise KeyError("{SECRET}")
    except KeyError as error:
        raise ValueError(f"wrong password {{password}}") from error


@app.task(secret=True, retry=Retry(max_retries=1, wait=lambda n, error: 1 / 0))
async def fail_oddly(password: str) -> None:
    raise ValueError(password)


@app.task(secret=True, retry=QUICK)
async def misfit(password: str) -> object:
    return {{password: object()}}


@app.task(secret=True)
async def abort(job: Job, password: str) -> None:
    await job.progress(1, 2, f"trying {{password}}")
    raise Abort(f"no {{password}}")


@app.task(secret=True)
async def move(job: Job, password: str) -> Reschedule | None:
    return None if job.reschedules else Reschedule(after=0, reason=password)


@app.task(secret=True)
async def refuse(job: Job, password: str) -> None:
    if job.reschedules == 0:
        raise Unavailable(after=3600, reason=password)


@app.task(secret=["password"], retry=QUICK, resource="user:{{user}}")
async def login(user: str, password: str) -> None:
    raise ValueError(f"{{user}} has another password than {{password}}")


async def fill() -> None:
    async with app:
        tasks = (give, fail, fail_oddly, misfit, abort, move, refuse)
        await app.enqueue_many([task.call("{SECRET}") for task in tasks])
        await login.enqueue("ada", "{SECRET}")
"""
ENDS = {
    "give": "succeeded",
    "fail": "failed",
    "fail_oddly": "failed",
    "misfit": "failed",
    "abort": "failed",
    "move": "succeeded",
    "refuse": "scheduled",
    "login": "failed",
}


@pytest.fixture
def log(project: Path, mita: Run) -> Iterator[list[str]]:
    """The log of a worker process that ran all these jobs, at the most detailed level."""
    (project / "vault.py").write_text(VAULT)
    sys.path.insert(0, str(project))
    asyncio.run(importlib.import_module("vault").fill())
    worker = Running("vault:app", "--log-json", "--log-level", "debug")
    wait_until(lambda: states(mita) == ENDS)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    yield worker.log
    worker.close()


def states(mita: Run) -> dict[str, str]:
    return {job["task"]: job["state"] for job in mita("jobs", "--json").data["jobs"]}


def test_nothing_secret_is_shown_anywhere(log: list[str], mita: Run, project: Path) -> None:
    lines = [json.loads(line) for line in log]
    assert {"fail", "fail_oddly", "misfit", "abort", "login", "move", "refuse"} <= {
        line.get("task") for line in lines
    }
    said = [*log, *_everything(mita)]
    assert any("ValueError (text withheld: task is secret)" in text for text in said)
    for text in said:
        assert SECRET not in text


def _everything(mita: Run) -> Iterator[str]:
    """The output of every command about these jobs, with and without their app, as text and as
    JSON."""
    jobs = mita("jobs", "--json").data["jobs"]
    assert len(jobs) == len(ENDS)
    for app in ([], ["--app", "vault:app"]):
        yield from (
            str(mita(*command, *app))
            for command in (["jobs"], ["jobs", "--json"], ["queues"], ["workers"])
        )
        for job in jobs:
            for command in (
                ["show", "--args"],
                ["show", "--args", "--json"],
                ["why"],
                ["why", "--json"],
            ):
                yield str(mita(command[0], job["id"], *command[1:], *app))


def test_what_is_not_secret_is_shown(log: list[str], mita: Run) -> None:
    ids = {job["task"]: job["id"] for job in mita("jobs", "--json").data["jobs"]}
    failed = mita("show", ids["fail"], "--args").out
    assert re.search(r"arguments +\(withheld: task is secret\)", failed)
    assert re.search(r'vault\.py", line \d+, in fail', failed)
    assert re.search(
        r"progress +1 of 2 \(withheld: task is secret\)", mita("show", ids["abort"]).out
    )
    assert re.search(r"result +\(withheld: task is secret\)", mita("show", ids["give"]).out)
    login = mita("show", ids["login"], "--args", "--json").data["job"]
    assert login["arguments"] == {"user": "ada", "password": "(withheld: task is secret)"}
    assert login["resource"] == "user:ada"
    assert "it failed after 2 failed runs" in mita("why", ids["fail"]).out
