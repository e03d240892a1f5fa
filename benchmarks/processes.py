"""Child processes: start, measure and end them by their ids."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_HZ = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[bytes]:
    """The fields after the name; empty if the process has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return []
    return text[text.rindex(b")") + 2 :].split()


def tree(root: int) -> list[int]:
    """The process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        if fields := _stat(int(path.name)):
            children.setdefault(int(fields[1]), []).append(int(path.name))
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def cpu(*roots: int) -> float:
    """CPU seconds used so far by these process trees, with children that ended."""
    pids = {pid for root in roots for pid in tree(root)}
    return (
        sum(sum(int(ticks) for ticks in fields[11:15]) for pid in pids if (fields := _stat(pid)))
        / _HZ
    )


def rss(*roots: int) -> float:
    """Memory of these process trees in MB, without shared maps."""
    return sum(_rss(pid) for root in roots for pid in tree(root)) / 1024


def _rss(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    sizes = dict(
        line.split(":", 1) for line in text.splitlines() if line.startswith(("RssAnon", "RssFile"))
    )
    return sum(int(size.split()[0]) for size in sizes.values())


def busy() -> tuple[float, float]:
    """CPU seconds the whole machine has worked, and those the hypervisor took."""
    with Path("/proc/stat").open() as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]
    return (sum(ticks[:3]) + ticks[5] + ticks[6]) / _HZ, ticks[7] / _HZ


class Process:
    """A child in a session of its own, so that Ctrl-C reaches only us. Its output is kept for
    the error message if it fails."""

    def __init__(self, argv: list[str], folder: Path, name: str, **more: Any) -> None:
        self.name = name
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self._popen = subprocess.Popen(
                argv, stdout=out, stderr=err, start_new_session=True, **more
            )
        self.pid = self._popen.pid

    @property
    def code(self) -> int | None:
        return self._popen.poll()

    @property
    def said(self) -> str:
        return self._out.read_text(errors="replace")

    @property
    def trouble(self) -> str:
        """The last part of its stderr."""
        text = self._err.read_text(errors="replace").strip() or self.said.strip()
        return " / ".join(text.splitlines()[-3:])[-400:] or f"ended with code {self.code}"

    def wait(self, seconds: float) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self._popen.wait(seconds)
        return self.code

    def stop(self, grace: float = 20.0) -> bool:
        """Ask it to stop, kill it if it does not. Returns whether it exited cleanly."""
        if self.code is None:
            self._popen.send_signal(signal.SIGTERM)
        code = self.wait(grace)
        self.kill()
        return code == 0

    def kill(self) -> None:
        if self.code is None:
            self._popen.kill()
            self._popen.wait()


_SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
try:
    open("/proc/self/autogroup", "w").write("19")
except OSError:
    pass
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(100000):
        pass
"""


def keep_awake(folder: Path, python: str) -> list[Process]:
    """Run one busy loop of idle priority on each core. It runs only if no other process needs
    the core, and keeps a virtual core from halting: waking such a core takes longer than a round
    trip to a server, so an idle machine would look slower than a busy one."""
    if not hasattr(os, "SCHED_IDLE"):
        return []
    cores = sorted(os.sched_getaffinity(0))
    return [Process([python, "-c", _SPIN, str(core)], folder, f"awake-{core}") for core in cores]


class Window:
    """How many cores other processes used while this context was open."""

    def __enter__(self) -> "Window":
        self._at, (self._busy, self._stolen), self._ours = (
            time.monotonic(),
            busy(),
            cpu(os.getpid()),
        )
        self.foreign = self.steal = 0.0
        return self

    def __exit__(self, *ignored: object) -> None:
        seconds = max(time.monotonic() - self._at, 1e-3)
        worked, stolen = busy()
        ours = cpu(os.getpid()) - self._ours
        self.foreign = round(max(0.0, (worked - self._busy - ours) / seconds), 3)
        self.steal = round((stolen - self._stolen) / seconds, 3)
