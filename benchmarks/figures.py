"""The figures of a run, and the JSON document that contains them."""

import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

VERSION = 1  # the version of the document


class Spread(Struct, frozen=True, kw_only=True):
    """How late jobs started, in milliseconds. `early` counts jobs that started too early."""

    least: float
    p50: float
    p90: float
    p99: float
    most: float
    early: int = 0


class Cost(Struct, frozen=True, kw_only=True):
    """The cost: CPU in seconds per 1,000 jobs, memory in MB, the store in bytes. `worker_rss` is
    measured at the first job, half way and at the end, without the map in which the jobs are
    recorded. `store_full` is measured while all jobs wait."""

    worker_cpu: float | None = None
    server_cpu: float | None = None
    worker_rss: list[float] = field(default_factory=list)
    server_rss: float | None = None
    store_full: int | None = None
    store_after: int | None = None


class Noise(Struct, frozen=True, kw_only=True):
    """How many cores other processes and the hypervisor used during the measurement."""

    foreign: float
    steal: float
    load: float


class Slice(Struct, frozen=True, kw_only=True):
    """The cost of one job in microseconds while this many jobs waited."""

    waiting: int
    cost: float


class Figure(Struct, kw_only=True):
    """One line of the table. `value` is the median of `values`; None when there is none, and
    `problems` says why.

    `raw` is the engine's own loop in the same run, `share` our percentage of it; `against` is the
    value in relation to the plain one of the same run, `against_cpu` the same of the processor time
    that a job takes the workers."""

    store: str
    workload: str
    name: str
    unit: str = "jobs/s"
    value: float | None = None
    values: list[float] = field(default_factory=list)
    jobs: int = 0
    seconds: float = 0.0
    waiting: int = 0
    processes: int = 1
    raw: float | None = None
    share: float | None = None
    against: float | None = None
    against_cpu: float | None = None
    spread: Spread | None = None
    cost: Cost | None = None
    noise: Noise | None = None
    slices: list[Slice] = field(default_factory=list)
    ok: bool = True
    problems: list[str] = field(default_factory=list)
    at: str = ""

    def failed(self, *why: str) -> "Figure":
        self.problems += why
        self.ok = not self.problems
        return self


class About(Struct, kw_only=True):
    """A store of the run: its server and settings, or why it was skipped."""

    server: str = ""
    settings: str = ""
    skipped: str = ""


class Report(Struct, kw_only=True):
    """The whole run."""

    version: int = VERSION
    started: str = ""
    ended: str = ""
    stopped: bool = False
    machine: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    stores: dict[str, About] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)

    def find(self, store: str, workload: str) -> list[Figure]:
        return [
            figure
            for figure in self.figures
            if (figure.store, figure.workload) == (store, workload)
        ]

    def write(self, path: Path) -> None:
        """Write atomically: a run that is interrupted leaves the last complete document."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        beside.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")
        beside.replace(path)

    @staticmethod
    def read(path: Path) -> "Report":
        return msgspec.json.decode(path.read_bytes(), type=Report)
