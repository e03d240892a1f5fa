"""`worker --reload`, with real processes: restarted at a change, never two at once, stopped as a
whole."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until

from .conftest import Run
from .processes import Running, alive

SOURCE = """
import asyncio, os
from mita import Mita
app = Mita("sqlite:///jobs.db")

@app.task
async def version() -> int:
    return {version}

@app.task
async def gated() -> str:
    while not os.path.exists("gate"):
        await asyncio.sleep(0.01)
    return "ended"
"""


def write(folder: Path, version: int) -> None:
    """Save the file at once, as editors do."""
    (folder / "new").write_text(SOURCE.replace("{version}", str(version)))
    (folder / "new").replace(folder / "live.py")


@pytest.fixture
def worker(project: Path) -> Iterator[Running]:
    write(project, 1)
    running = Running("live:app", "--reload", "--grace", "30")
    yield running
    running.close()


def pid_of(worker: Running) -> int:
    pid = int(worker.wait_for_line(r"process 1 is (\d+)")[1])
    worker.wait_for_line("serves all queues")
    return pid


def result(mita: Run, task: str) -> object:
    """Enqueue a job, wait for its end, and return its result."""
    id = mita("enqueue", task, "--app", "live:app", "--json").data["id"]
    wait_until(lambda: mita("show", id, "--json").data["job"]["state"] == "succeeded")
    return mita("show", id, "--json").data["job"]["result"]


def test_a_change_restarts_the_worker_when_its_jobs_have_ended(
    worker: Running, mita: Run, project: Path
) -> None:
    first = pid_of(worker)
    assert result(mita, "version") == 1
    id = mita("enqueue", "gated", "--app", "live:app", "--json").data["id"]
    wait_until(lambda: mita("show", id, "--json").data["job"]["state"] == "running")
    write(project, 2)
    worker.wait_for_line("live.py changed: the worker is restarted")
    worker.wait_for_line("stopping: running jobs have 30 s to end")
    assert alive(first), "it waits for its job"
    (project / "gate").touch()
    second = pid_of(worker)
    assert not alive(first), "never two at once"
    assert mita("show", id, "--json").data["job"]["result"] == "ended"
    assert mita("show", id, "--json").data["job"]["attempts"] == 0
    assert result(mita, "version") == 2
    worker.signal(signal.SIGINT)
    assert worker.ended() == 0
    assert not alive(second), "Ctrl-C stops all"


def test_an_error_in_the_file_is_shown_and_the_next_save_starts_it_again(
    worker: Running, mita: Run, project: Path
) -> None:
    pid_of(worker)
    (project / "live.py").write_text("def broken(:\n")
    worker.wait_for_line("live.py changed")
    worker.wait_for_line("cannot import 'live:app'.*SyntaxError")
    worker.wait_for_line("ended with exit code 2; the next change of a file starts it again")
    write(project, 3)
    pid_of(worker)
    assert result(mita, "version") == 3
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_reloader_that_is_killed_takes_its_worker_along(worker: Running) -> None:
    pid = pid_of(worker)
    worker.process.kill()
    wait_until(lambda: not alive(pid))


def test_reload_restarts_one_process(mita: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    said = mita("worker", "shop:app", "--reload", "--processes", "2")
    assert (said.code, "--reload restarts one process" in said.err) == (2, True)
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    said = mita("worker", "shop:app", "--reload")
    assert (said.code, "pip install 'mita[reload]'" in said.err) == (2, True)
