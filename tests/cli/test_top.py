"""`mita top`: one snapshot for programs and pipes, a live view on a terminal."""

import fcntl
import io
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mita.cli.snapshot import Snapshot, report
from mita.cli.table import Table, draw
from mita.cli.top import ENTER, LEAVE
from mita.model.record import DisplayState, JobRecord, ProgressReport
from mita.model.view import QueueView, WorkerView
from tests.waiting import wait_until

from .conftest import Run
from .processes import TIMEOUT_S, Running
from .test_screen import on_a_terminal

Put = Callable[..., str]

CRAWL = """
from shop import *

@app.task(queue="web")
async def crawl(job: Job, pages: int) -> None:
    await job.progress(pages // 2, pages, "half of it")
    await asyncio.sleep(60)
"""


@pytest.fixture
def crawling(project: Path, mita: Run) -> Iterator[str]:
    """Run a worker with a job that is half done. Yields the id of the job."""
    (project / "crawler.py").write_text(CRAWL)
    said = mita("enqueue", "crawl", "10", "--app", "crawler:app", "--json")
    worker = Running(
        "crawler:app", "--lease", "1", "--grace", "0.1", "--concurrency", "7", "--name", "box"
    )
    wait_until(lambda: bool(mita("show", said.data["id"], "--json").data["job"]["progress"]))
    yield str(said.data["id"])
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    worker.close()


def test_a_snapshot_has_queues_workers_and_running_jobs(
    mita: Run, crawling: str, enqueue: Put
) -> None:
    enqueue("greet", "Ada", "--after", "1h")
    wait_until(lambda: " box " in mita("top", "--once").out.replace("\nbox", "\n box"))
    said = mita("top", "--once")
    assert said.code == 0
    assert "\x1b" not in said.out
    head = (
        r"^mita top · \d\d:\d\d:\d\d UTC · .* · sqlite file .*jobs\.db\n1 to run, 1 running "
        r"· 1 worker, 7 slots\n"
    )
    assert re.search(head, said.out)
    assert re.search(
        r"^QUEUE +DEPTH +READY +SCHEDULED +BLOCKED +RUNNING +FAILED +RATE +OLDEST",
        said.out,
        re.MULTILINE,
    )
    assert re.search(r"^default +1 +0 +1 ", said.out, re.MULTILINE)
    assert re.search(r"^web +0 +0 +0 +0 +1 ", said.out, re.MULTILINE)
    assert re.search(r"^box +\d+ +1 +7 .* ok +\d+\.\d+", said.out, re.MULTILINE)
    assert re.search(
        rf"^{crawling} +crawl +web .* 50% \[##########----------\]  5 of 10 half of it",
        said.out,
        re.MULTILINE,
    )


def test_a_snapshot_as_json(mita: Run, crawling: str) -> None:
    wait_until(lambda: bool(mita("top", "--json").data["workers"]))
    data = mita("top", "--json").data
    [queue] = data["queues"]
    assert (queue["name"], queue["depth"], queue["running"], queue["rate"]) == ("web", 0, 1, 0.0)
    [worker] = data["workers"]
    assert (worker["name"], worker["slots"], abs(worker["clock_offset_seconds"]) < 5) == (
        "box",
        7,
        True,
    )
    assert worker["version"]
    [job] = data["jobs"]
    assert (job["id"], job["progress"]) == (crawling, [5, 10, "half of it"])


@pytest.mark.parametrize("command", [["top", "--once"], ["workers"]])
def test_the_jobs_of_a_new_worker_are_shown_at_once(
    project: Path, mita: Run, command: list[str]
) -> None:
    """Not only after its next heartbeat, ten seconds later."""
    worker = Running("shop:app", "--name", "box")
    try:
        id = mita("enqueue", "nap", "60", "--app", "shop:app", "--json").data["id"]
        wait_until(lambda: mita("show", id, "--json").data["job"]["state"] == "running")
        wait_until(lambda: bool(mita("workers", "--json").data["workers"]))
        [seen] = mita("workers", "--json").data["workers"]
        assert (mita(*command, "--json").data["workers"][0]["running"], seen["running"]) == (1, 1)
        assert re.search(
            r"^WORKER +PID +BUSY.*\nbox +\d+ +1 +100 ", mita(*command).out, re.MULTILINE
        )
        assert re.search(r"^worker +box#[0-9a-f]{8}$", mita("show", id).out, re.MULTILINE)
    finally:
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGTERM)
        worker.ended()
        worker.close()


def test_a_rate_is_shown_with_the_time_that_it_covers(project: Path, mita: Run) -> None:
    worker = Running("shop:app", "--name", "box", "--lease", "1.5")
    try:
        for name in "abc":
            mita("enqueue", "greet", name, "--app", "shop:app")
        wait_until(lambda: any(view["rate"] for view in mita("workers", "--json").data["workers"]))
        [seen] = mita("workers", "--json").data["workers"]
        assert seen["rate"] == pytest.approx(3 / seen["rate_window_seconds"], abs=0.01)
        assert re.search(r"^box .* [\d.]+/s in \d+ m?s ", mita("workers").out, re.MULTILINE)
    finally:
        worker.signal(signal.SIGTERM)
        worker.ended()
        worker.close()


def picture(width: int) -> str:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    ids = [f"{n:032x}" for n in range(2)]
    views = [
        QueueView(name=f"a-queue-with-a-long-name-{n}", ready=1200, running=1) for n in range(2)
    ]
    workers = [
        WorkerView(
            id=f"w{n}",
            name=f"a-worker-with-a-long-name-{n}",
            host="h",
            pid=123456,
            queues=("mail",) * 9,
            tasks=(),
            slots=100,
            rate=1234.5,
            window=10_000,
            version="0.1.0",
        )
        for n in range(2)
    ]
    jobs = tuple(
        JobRecord(
            id=id,
            task="a_task_with_a_long_name",
            queue="mail",
            state=DisplayState.RUNNING,
            priority=5,
            due=now,
            created=now,
            started=now,
            progress=ProgressReport(1, 2, "half of it"),
        )
        for id in ids
    )
    shown = Snapshot(
        "sqlite file jobs.db",
        now,
        views,
        workers,
        jobs,
        {id: f"{n}" * 12 for n, id in enumerate(ids)},
    )
    out = io.StringIO()
    for part in report(shown).parts:
        if isinstance(part, Table):
            draw(part, out, width, colours=False)
        else:
            print(part, file=out)
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_every_width_keeps_the_name_of_each_row(width: int) -> None:
    shown = picture(width)
    assert all(len(line) <= width for line in shown.splitlines()[1:]), shown
    for start in (
        "QUEUE  +DEPTH",
        "WORKER  +",
        "RUNNING  +TASK",
        "a-queue-wit",
        "a-worker-wi",
        "0{12}  a_task",
        "1{12}  a_task",
    ):
        assert re.search(f"^{start}", shown, re.MULTILINE), (start, shown)
    assert shown.count("50%") == 2
    assert shown.count("/s in 10 s") == 3


def test_an_empty_store_says_so(mita: Run) -> None:
    mita("migrate")
    out = mita("top", "--once").out
    assert "no queues yet" in out
    assert "no worker is alive" in out


@pytest.mark.parametrize(
    ("wrong", "says"), [("0", "too short"), ("soon", "is not a length of time"), ("-1", "negative")]
)
def test_a_wrong_interval_is_refused(mita: Run, wrong: str, says: str) -> None:
    said = mita("top", f"--interval={wrong}")
    assert said.code == 2
    assert says in said.err


class Terminal:
    """`mita top` on a terminal of 120 by 30."""

    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
        environment = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")
        }
        command = [sys.executable, "-m", "mita", "top", *arguments]
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env=environment,
        )
        os.close(theirs)
        os.set_blocking(self._ours, False)
        self.said = ""

    def wait_for_line(self, pattern: str) -> str:
        """Wait until the output since the last call matches the pattern, and return it up to the
        match."""
        end = time.monotonic() + TIMEOUT_S
        while not (found := re.search(pattern, self.said, re.DOTALL)):
            assert time.monotonic() < end, f"never saw {pattern!r} in {self.said[-2000:]!r}"
            self._read()
            time.sleep(0.02)
        before, self.said = self.said[: found.end()], self.said[found.end() :]
        return before

    def _read(self) -> None:
        try:
            self.said += os.read(self._ours, 1_000_000).decode(errors="replace")
        except (BlockingIOError, OSError):  # no output yet, or the program has ended
            return

    def interrupt(self) -> int:
        os.killpg(self.process.pid, signal.SIGINT)
        code = self.process.wait(TIMEOUT_S)
        self._read()
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(TIMEOUT_S)
        os.close(self._ours)


@pytest.fixture
def terminal(project: Path) -> Iterator[Callable[..., Terminal]]:
    opened: list[Terminal] = []

    def open(*arguments: str) -> Terminal:
        opened.append(Terminal(*arguments))
        return opened[-1]

    yield open
    for one in opened:
        one.close()


def test_the_live_view_is_updated_and_ctrl_c_ends_it(
    mita: Run, enqueue: Put, terminal: Callable[..., Terminal]
) -> None:
    enqueue("greet", "Ada", "--after", "1h")
    top = terminal("--interval", "0.1")
    assert ENTER in top.wait_for_line("1 to run")
    enqueue("greet", "Bo", "--after", "1h")
    top.wait_for_line("2 to run")
    assert top.interrupt() == 0
    assert top.said.endswith(LEAVE)
    assert "Traceback" not in top.said


def test_an_unreachable_store_is_reported_until_it_is_back(
    mita: Run, enqueue: Put, terminal: Callable[..., Terminal], project: Path
) -> None:
    enqueue("greet", "Ada", "--after", "1h")
    top = terminal("--interval", "0.1")
    top.wait_for_line("1 to run")
    (project / "jobs.db").rename(project / "away.db")
    line = top.wait_for_line(r"as of \d\d:\d\d:\d\d UTC: the store is unreachable.*1 to run")
    assert "deleted or replaced" in line
    (project / "away.db").rename(project / "jobs.db")
    enqueue("greet", "Bo", "--after", "1h")
    assert "cannot be reached" not in top.wait_for_line("2 to run").rsplit("mita top", 1)[1]
    assert top.interrupt() == 0


def test_a_dumb_terminal_gets_one_snapshot(project: Path, enqueue: Callable[..., str]) -> None:
    enqueue("greet", "Ada")
    said = on_a_terminal("top", TERM="dumb")
    assert said.startswith("mita top")
    assert "\x1b" not in said
