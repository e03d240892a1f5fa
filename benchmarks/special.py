"""The workloads that other queues have slowly or not at all. Their rates are compared with a plain
drain of as many jobs, which follows each of them."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from .bench import Bench, Drain
from .figures import Figure
from .loading import CHAIN_STEPS, GROUP_STEPS

_HOUR_S = 3600.0
_AMENDED_JOBS = 10_000
_STARTS = 9


def _beside_plain(
    bench: Bench, workload: str, name: str, task: str, share: float, runs: int = 1
) -> Figure:
    jobs = bench.sizes.part(share)
    want = Drain(jobs=jobs, task=task, runs=runs, repeat=bench.sizes.repeat)
    return bench.drain_beside(bench.figure(workload, name), want, Drain(jobs=jobs))


def retries(bench: Bench) -> Iterator[Figure]:
    yield _beside_plain(
        bench, "retries", "retries (fail once, succeed)", "fail_once", share=0.25, runs=2
    )


def reschedules(bench: Bench) -> Iterator[Figure]:
    yield _beside_plain(
        bench, "reschedules", "reschedules by handlers", "move_once", share=0.25, runs=2
    )


def keys(bench: Bench) -> Iterator[Figure]:
    """One worker beside a plain drain, then two workers beside one."""
    name = "1,000 contended resource keys"
    yield _beside_plain(bench, "keys", name, "keyed", share=0.25)
    if bench.engine.shared:
        want = Drain(jobs=bench.sizes.part(0.25), task="keyed", repeat=bench.sizes.repeat)
        figure = bench.figure("keys", f"{name}, 2 workers beside 1", processes=2)
        yield bench.drain_beside(figure, want, want)


def kept(bench: Bench) -> Iterator[Figure]:
    """The same jobs, with and without results that are kept."""
    want = Drain(jobs=bench.sizes.part(0.5), task="answer", keep=_HOUR_S, repeat=bench.sizes.repeat)
    figure = bench.figure("kept", "drain, results kept an hour, beside none")
    yield bench.drain_beside(figure, want, replace(want, keep=0.0))


def rates(bench: Bench) -> Iterator[Figure]:
    yield _beside_plain(bench, "rates", "jobs with a rate limit", "rated", share=0.25)


def fair(bench: Bench) -> Iterator[Figure]:
    yield _beside_plain(bench, "fair", "fair shares of 100 tenants", "fair", share=0.25)


def chains(bench: Bench) -> Iterator[Figure]:
    yield _beside_plain(bench, "chains", f"chains of {CHAIN_STEPS} steps", "chain", share=0.1)


def groups(bench: Bench) -> Iterator[Figure]:
    name = f"groups of {GROUP_STEPS - 1} with a callback"
    yield _beside_plain(bench, "groups", name, "group", share=0.2)


def looks(bench: Bench) -> Iterator[Figure]:
    """The median of the later looks; the first look is the first of the values."""
    jobs = bench.sizes.ready
    answer, size, heard = bench.with_jobs(jobs, "look")
    for name, times in answer.items():
        figure = bench.figure("looks", f"{name} with {jobs:,} jobs", unit="ms", jobs=jobs)
        figure.values, figure.noise = times, heard
        figure.value = statistics.median(times[1:])
        yield figure
    if size is not None:
        yield bench.figure(
            "looks", "bytes per waiting job", unit="bytes", value=size / jobs, jobs=jobs
        )


def amend(bench: Bench) -> Iterator[Figure]:
    jobs = min(_AMENDED_JOBS, bench.sizes.ready)
    answer, _, heard = bench.with_jobs(jobs, "amend", most=jobs)
    for name, took in answer.items():
        figure = bench.figure("amend", f"{name} of {jobs:,} jobs", unit="ms")
        figure.value, figure.values, figure.jobs = took, [took], jobs
        figure.noise = heard
        yield figure


def start(bench: Bench) -> Iterator[Figure]:
    """How much longer than Python alone it takes until the import or the command has ended."""
    python = _seconds([sys.executable, "-c", "pass"])
    for name, command in (
        ("import mita", [sys.executable, "-c", "import mita"]),
        ("from mita import Mita", [sys.executable, "-c", "from mita import Mita"]),
        ("mita --help", [str(Path(sys.executable).with_name("mita")), "--help"]),
    ):
        values = [(took - python[0]) * 1000 for took in _seconds(command)]
        figure = bench.figure("start", name, unit="ms", values=values, jobs=_STARTS)
        figure.value = statistics.median(values)
        yield figure


def _seconds(command: list[str]) -> list[float]:
    """How long a command takes, the fastest first."""
    took = []
    for _ in range(_STARTS):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took.append(time.perf_counter() - began)
    return sorted(took)
