"""What a group costs plain jobs beside it.

Two workers share a store. The first drains plain jobs. The second does one of three things:

- nothing (`alone`),
- it drains as many plain jobs of another queue as the group has members (`control`),
- it runs a group with a callback (`group`).

Both workers have started before the first job is claimed. The rate of the first worker is counted
only while the second one runs its jobs, from the start of its first job to the start of its last.
The control says what any second worker costs: two workers share the processor, and the writer of a
SQLite file. What a group costs beyond that is its own."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mita import Mita

from .servers import Engine

COMMAND = [sys.executable, "-m", "benchmarks.flow_sizes", "--role"]
KINDS = ("alone", "control", "group")
BINS_PER_S = 100  # of the clock that both workers share
HEAD_START_S = 0.5  # of the plain jobs
ALONE_S = 2.0  # for which plain jobs are counted that have no second worker beside them
FEWEST_S = 0.5  # that a rate is counted
READY = "ready"


class Starts:
    """When the jobs of a worker started: how many in each hundredth of a second of the clock that
    all processes share."""

    def __init__(self) -> None:
        self.bins: Counter[int] = Counter()

    def add(self) -> None:
        """A job starts now."""
        self.bins[int(time.monotonic() * BINS_PER_S)] += 1


async def serve(app: Mita, starts: Starts, **settings: Any) -> None:
    """A worker that waits for a line before it claims its first job. At the end it prints when its
    jobs started."""
    worker = app.worker(until_empty=True, **settings)
    print(READY, flush=True)
    sys.stdin.readline()
    await worker.run()
    print(json.dumps(starts.bins), flush=True)


@contextmanager
def waiting(url: str, phase: str, jobs: int) -> Iterator[subprocess.Popen[str]]:
    """A worker process that has started and waits for its line."""
    command = [*COMMAND, url, phase, str(jobs)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            _next_line(process, READY)
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def _next_line(process: subprocess.Popen[str], begin: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(begin):
            return line
    raise RuntimeError(f"a worker ended with {process.wait()}: {process.args!r}")


def _bins(process: subprocess.Popen[str]) -> dict[int, int]:
    found: dict[str, int] = json.loads(_next_line(process, "{"))
    return {int(at): jobs for at, jobs in found.items()}


def rate(plain: dict[int, int], others: dict[int, int]) -> tuple[float, float]:
    """How many plain jobs started per second while the others started, and for how many seconds
    that was counted. Without others it is counted after the head start."""
    begin = min(others, default=min(plain) + int(HEAD_START_S * BINS_PER_S))
    end = min(max(others, default=begin + int(ALONE_S * BINS_PER_S)), max(plain))
    seconds = (end - begin) / BINS_PER_S
    if seconds < FEWEST_S:
        raise RuntimeError(f"both ran only for {seconds} s: give more plain jobs or members")
    return sum(jobs for at, jobs in plain.items() if begin <= at < end) / seconds, seconds


def _load(url: str, phase: str, jobs: int) -> None:
    command = [*COMMAND, url, phase, str(jobs)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measure(engine: Engine, kind: str, members: int, jobs: int) -> tuple[float, float]:
    """The rate of plain jobs beside a second worker of this kind, and the seconds that both ran."""
    with tempfile.TemporaryDirectory() as folder:
        place = engine.open(Path(folder))
        try:
            subprocess.run(
                [*COMMAND, place.url, "load", str(jobs)], check=True, stdout=subprocess.DEVNULL
            )
            if kind != "alone":
                load = "enqueue" if kind == "group" else "load-control"
                subprocess.run(
                    [*COMMAND, place.url, load, str(members)], check=True, stdout=subprocess.DEVNULL
                )
            place.settle()
            with (
                waiting(place.url, "drain-plain", jobs) as first,
                waiting(place.url, "drain-others", members) as second,
            ):
                _go(first)
                time.sleep(HEAD_START_S)
                _go(second)
                others = {} if kind == "alone" else _bins(second)
                return rate(_bins(first), others)
        finally:
            place.close()


def beside(store: str, engine: Engine, members: int, jobs: int, rounds: int) -> None:
    """Measure all kinds by turns, and print the medians of what each round says."""
    ratios: dict[str, list[float]] = {"control": [], "group": []}
    for number in range(1, rounds + 1):
        rates: dict[str, float] = {}
        for kind in KINDS:
            rates[kind], seconds = measure(engine, kind, members, jobs)
            print(f"{store} {number} {kind}: {rates[kind]:,.0f}/s for {seconds:.1f} s", flush=True)
        for kind, found in ratios.items():
            found.append(rates[kind] / rates["alone"])
    control, group = (statistics.median(ratios[kind]) for kind in ("control", "group"))
    own = statistics.median(a / b for a, b in zip(ratios["group"], ratios["control"], strict=True))
    text = (
        f"{store}: of their rate alone, plain jobs keep {control:.0%} beside {members:,} plain "
        f"jobs of another queue, and {group:.0%} beside a group of {members:,} members. That is "
        f"{own:.0%} of the control"
    )
    print(text, flush=True)
