"""What handlers started and did not stop when their worker ends: the log names it, and it is
ended."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until

from .conftest import Run
from .processes import Running, gone
from .test_worker import Start, job

POOLS = """
import asyncio, os, pathlib, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from mita import Mita

app = Mita("sqlite:///jobs.db")
processes, threads = ProcessPoolExecutor(1), ThreadPoolExecutor(1, thread_name_prefix="mine")


def crunch() -> None:
    pathlib.Path("started").write_text(str(os.getpid()))
    time.sleep(600)


@app.task
async def in_a_pool_of_processes() -> None:
    await asyncio.get_running_loop().run_in_executor(processes, crunch)


@app.task
async def in_a_pool_of_threads() -> None:
    await asyncio.get_running_loop().run_in_executor(threads, crunch)


@app.task
def on_a_thread() -> None:
    crunch()


@app.task(executor="process")
def in_a_process() -> None:
    crunch()


@app.task
async def hog() -> None:
    while not pathlib.Path("started").exists():
        await asyncio.sleep(0.01)
    time.sleep(600)
"""


@pytest.fixture
def start(project: Path) -> Iterator[Start]:
    (project / "pools.py").write_text(POOLS)
    started: list[Running] = []

    def run(*arguments: str, **environment: str) -> Running:
        started.append(Running("pools:app", *arguments, **environment))
        return started[-1]

    yield run
    for running in started:
        running.close()


def put(mita: Run, task: str) -> str:
    said = mita("enqueue", task, "--app", "pools:app", "--json")
    assert said.code == 0, said
    return str(said.data["id"])


def started(project: Path) -> int:
    file = project / "started"
    wait_until(lambda: file.exists() and file.read_text() != "")
    return int(file.read_text())


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (
            "in_a_pool_of_processes",
            r"ending what handlers started and did not stop: .*process \d+",
        ),
        (
            "in_a_pool_of_threads",
            r"ending what handlers started and did not stop: thread mine_0",
        ),
        (
            "on_a_thread",
            (
                r"has ended; these jobs still run, .*: job [0-9a-f]+ of on_a_thread on "
                r"thread mita-handler-1"
            ),
        ),
    ],
)
def test_what_still_runs_is_named_and_ended(
    start: Start, mita: Run, project: Path, task: str, said: str
) -> None:
    worker = start("--grace", "0.2s")
    id = put(mita, task)
    pid = started(project)
    worker.signal(signal.SIGTERM)
    worker.wait_for_line(said)
    assert worker.ended() == 0
    assert gone(pid)
    assert (job(mita, id)["state"], job(mita, id)["interruptions"]) == ("ready", 1)


def test_a_blocked_worker_kills_its_handler_processes_before_it_ends(
    start: Start, mita: Run, project: Path
) -> None:
    """I5: an async handler blocks the event loop, so another thread returns the jobs to the
    queue. Their processes must have ended by then."""
    worker = start("--grace", "0.2s")
    ids = [put(mita, "in_a_process"), put(mita, "hog")]
    pid = started(project)
    wait_until(lambda: [job(mita, id)["state"] for id in ids] == ["running", "running"])
    worker.signal(signal.SIGTERM)
    worker.wait_for_line("ending with 2 jobs still running, returned to the queue")
    worker.ended()
    assert gone(pid)
    assert [job(mita, id)["interruptions"] for id in ids] == [1, 1]
