"""One measurement: an empty store, the record of its jobs, and the processes that work on it."""

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .figures import Cost, Noise
from .loading import Load
from .processes import Process, Window, cpu, keep_awake, rss
from .record import LOADED, MISSED, Record
from .roles import Brief
from .servers import Engine, NoServer

_HOME = Path(__file__).parent.parent
_STALL_S = 60.0  # after this time without progress a measurement has failed
_LOOK_EVERY_S = 0.02
_QUIET_CORES = 0.1  # cores that other programs may use on a quiet machine
_UNDONE = ("ready", "blocked", "running")
_UNTIMED = {"PGOPTIONS": "-c synchronous_commit=off"}  # while loading only


class Failed(Exception):
    """There is no figure; the text says why."""


class EventBus(Protocol):
    """A function that is called with the progress of a measurement."""

    def __call__(self, what: str, done: int = 0, total: int = 0) -> None: ...


class Lab(Struct, frozen=True, kw_only=True):
    """Where measurements are made. `shm` is a folder in memory, for the records; `core` is for the
    process under test; `quiet` is how many seconds to wait at most for others to leave the machine
    alone; `awake`: whether idle cores are kept from sleeping where single jobs are timed."""

    folder: Path
    shm: Path
    watch: EventBus
    core: int | None
    concurrency: int
    quiet: float = 0.0
    awake: bool = True
    numbers: "itertools.count[int]" = msgspec.field(default_factory=lambda: itertools.count(1))

    @contextmanager
    def kept_awake(self) -> Iterator[None]:
        """Keep idle cores awake while single jobs are timed. In a drain no core sleeps, and a
        busy loop would only slow down the other thread of its core."""
        spinners = keep_awake(self.folder, sys.executable) if self.awake else []
        try:
            yield
        finally:
            for spinner in spinners:
                spinner.kill()


class Drained(Struct, frozen=True, kw_only=True):
    """The result of a drain. `ends` is when each job ended, in order."""

    jobs: int
    seconds: float
    cost: Cost
    noise: Noise
    problems: list[str]
    ends: list[int]

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


class Scene:
    """One measurement. `jobs` is how many jobs the record can hold. At the end of the context
    everything that was started is stopped."""

    def __init__(self, lab: Lab, engine: Engine, jobs: int = 0, keep: float = 0.0) -> None:
        self._lab, self._engine, self._jobs = lab, engine, jobs
        number = next(lab.numbers)
        self._folder = lab.folder / f"m{number}"
        self._folder.mkdir()
        self.record = Record(lab.shm / f"m{number}", jobs, create=True)
        self._processes: list[Process] = []
        self._loads: list[Load] = []
        try:
            self.place = engine.open(self._folder)
        except BaseException as error:
            self.record.close()
            # the servers of the tests raise this if they do not start
            if isinstance(error, AssertionError):
                raise NoServer(str(error)) from error
            raise
        self._brief = Brief(
            url=self.place.url,
            record=str(self.record.path),
            jobs=jobs,
            keep=keep,
            concurrency=lab.concurrency,
        )

    def __enter__(self) -> "Scene":
        return self

    def __exit__(self, *ignored: object) -> None:
        for process in self._processes:
            process.kill()
        self.place.close()
        self.record.close()

    # ------------------------------------------------------------ processes

    def _start(self, role: str, brief: Brief, **env: str) -> Process:
        name = f"{role}-{len(self._processes)}"
        argv = [sys.executable, "-m", "benchmarks.roles", role, msgspec.json.encode(brief).decode()]
        # files of a store in the temporary folder are deleted with ours
        tidy = {"TMPDIR": str(self._lab.shm)}
        process = Process(argv, self._folder, name, cwd=_HOME, env={**os.environ, **tidy, **env})
        self._processes.append(process)
        return process

    def _until(
        self, what: str, total: int, done: Callable[[], int], processes: Sequence[Process]
    ) -> None:
        """Wait for `done` to reach `total`, as long as it grows and the processes live."""
        last, deadline = -1, 0.0
        while (now := done()) < total:
            if now > last:
                last, deadline = now, time.monotonic() + _STALL_S
            dead = next((process for process in processes if process.code is not None), None)
            if dead is not None:
                raise Failed(f"{what}: {dead.name} died after {now:,} of {total:,}: {dead.trouble}")
            if time.monotonic() > deadline:
                raise Failed(f"{what}: no progress for {_STALL_S:g} s at {now:,} of {total:,}")
            self._lab.watch(what, now, total)
            time.sleep(_LOOK_EVERY_S)

    def ask(self, role: str, *, total: int = 0, **brief: Any) -> Any:
        """Run a role to its end and return its answer. A long one reports how many of a `total`
        are done."""
        process = self._start(role, replace(self._brief, **brief))
        if total:
            self._until(
                role,
                total,
                lambda: total if process.code is not None else self.record.head[LOADED],
                [],
            )
        return msgspec.json.decode(self._answer(role, process))

    def run(self, name: str, argv: list[str]) -> str:
        """Run a program to its end and return its output."""
        process = Process(argv, self._folder, name, cwd=_HOME)
        self._processes.append(process)
        return self._answer(name, process)

    def _answer(self, what: str, process: Process) -> str:
        self._until(what, 1, lambda: int(process.code is not None), [])
        if process.code != 0:
            raise Failed(f"{what}: {process.trouble}")
        return process.said

    def calm(self) -> None:
        """Wait until other programs leave the machine quiet, up to the configured time."""
        until = time.monotonic() + self._lab.quiet
        while time.monotonic() < until:
            self._lab.watch("waiting for the machine to be quiet")
            with Window() as window:
                time.sleep(0.5)
            if window.foreign + window.steal < _QUIET_CORES:
                return

    # ------------------------------------------------------------ loading

    def load(
        self, jobs: int, task: str = "noop", *, first: int = 0, scheduled: bool = False
    ) -> None:
        """A store that processes cannot share is loaded by its worker, when it starts."""
        each = Load(jobs=jobs, first=first, task=task, scheduled=scheduled)
        self._loads.append(each)
        if not jobs or not self._engine.shared:
            return
        before = self.record.head[LOADED]
        process = self._start("load", replace(self._brief, loads=[each]), **_UNTIMED)
        self._until("loading", 1, lambda: self._loaded(process, before, jobs), [])
        if process.code != 0:
            raise Failed(f"loading: {process.trouble}")

    def _loaded(self, process: Process, before: int, jobs: int) -> int:
        self._lab.watch("loading", self.record.head[LOADED] - before, jobs)
        return int(process.code is not None)

    # ------------------------------------------------------------ draining

    def drain(
        self,
        first: int,
        last: int,
        *,
        runs: int = 1,
        processes: int = 1,
        watched: str = "",
        count: bool = True,
    ) -> Drained:
        """Let workers run these jobs, each `runs` times. Nothing else may be ready. `count`:
        whether to count what is left, which on NATS reads every job that waits."""
        if self._engine.shared:
            self.place.settle()
        workers = self._workers(processes, watched=watched)
        pids = [worker.pid for worker in workers]
        self.calm()
        full, server = self.place.size(), self._server_cpu()
        with Window() as window:
            used = cpu(*pids)
            self.record.open_gate()
            memory = self._watch_memory(first, last, runs, workers)
            used, server = cpu(*pids) - used, self._server_cpu() - server
        jobs = last - first
        cost = Cost(
            worker_cpu=used / jobs * 1000,
            server_cpu=server / jobs * 1000 if self.place.pid else None,
            worker_rss=memory,
            server_rss=rss(self.place.pid) if self.place.pid else None,
            store_full=full,
            store_after=self.place.size(),
        )
        return Drained(
            jobs=jobs,
            seconds=self.record.seconds(first, last),
            cost=cost,
            noise=noise(window),
            problems=self._problems(first, last, runs, workers, count=count),
            ends=self.record.ends(first, last),
        )

    def _server_cpu(self) -> float:
        return cpu(self.place.pid) if self.place.pid else 0.0

    def _workers(self, processes: int, beside: str = "", watched: str = "") -> list[Process]:
        """Start the workers and wait until they are ready. A single worker is pinned to a core;
        several share all cores."""
        self.record.close_gate()
        core = self._lab.core if processes == 1 else None
        alone = not self._engine.shared
        brief = replace(
            self._brief,
            core=core,
            loads=self._loads if alone else [],
            beside=beside if alone else "",
            watched=watched,
        )
        workers = [
            self._start("work", replace(brief, number=number)) for number in range(processes)
        ]
        subscribed = "events" in watched and not alone
        if subscribed:
            self._start("subscribe", replace(self._brief, number=processes, core=_another(core)))
        loading = sum(load.jobs for load in brief.loads)
        self._until("starting", 1, lambda: self._gathered(processes + subscribed, loading), workers)
        return workers

    def _gathered(self, processes: int, loading: int) -> int:
        if loading:
            self._lab.watch("loading", self.record.head[LOADED], loading)
        return int(self.record.all_ready(processes))

    def _watch_memory(
        self, first: int, last: int, runs: int, workers: list[Process]
    ) -> list[float]:
        """Measure the memory of the workers at the first job, half way and at the end."""
        pids = [worker.pid for worker in workers]
        memory = []
        jobs = last - first
        for goal in (1, jobs // 2, jobs):
            self._until("draining", goal, lambda: self.record.done(first, last, runs), workers)
            memory.append(round(rss(*pids), 1))
        return memory

    def _problems(
        self, first: int, last: int, runs: int, workers: list[Process], *, count: bool = True
    ) -> list[str]:
        """Jobs that a correct drain does not leave in the store."""
        self._lab.watch("checking")
        problems = [
            f"{worker.name} left badly: {worker.trouble}" for worker in workers if not worker.stop()
        ]
        if wrong := self.record.not_exactly(first, last, runs):
            often = "once" if runs == 1 else f"{runs} times"
            problems.append(f"{wrong:,} of {last - first:,} jobs did not run exactly {often}")
        if lost := self.record.head[MISSED]:
            problems.append(f"{lost:,} events were lost")
        if self.record.strays:
            problems.append("a job ran long before its time")
        return problems + self._left(workers) if count else problems

    def _left(self, workers: list[Process]) -> list[str]:
        """What is wrong with the jobs that are left in the store."""
        left = (
            self.ask("count")
            if self._engine.shared
            else msgspec.json.decode(workers[0].said or "{}")
        )
        ahead = sum(load.jobs for load in self._loads if load.scheduled)
        problems = [
            f"{left[state]:,} jobs are still {state}" for state in _UNDONE if left.get(state)
        ]
        if left.get("scheduled", 0) != ahead:
            problems.append(f"{left.get('scheduled', 0):,} jobs are scheduled, not {ahead:,}")
        return problems

    # ------------------------------------------------------------ one now and then

    def paced(self, role: str) -> tuple[list[float], Noise, list[str]]:
        """How late each job of this producer started, in ms. The producer and the worker are two
        processes if the store allows it."""
        workers = self._workers(1, beside=role)
        self.calm()
        producers = [self._start(role, self._brief)] if self._engine.shared else []
        with Window() as window:
            self.record.open_gate()
            self._until("running", self._jobs, lambda: self.record.done(0, self._jobs), workers)
        if any(producer.wait(10) != 0 for producer in producers):
            raise Failed(f"{role}: {producers[0].trouble}")
        return (
            self.record.late(self._jobs),
            noise(window),
            self._problems(0, self._jobs, 1, workers),
        )


def _another(core: int | None) -> int | None:
    """The cores for a process that must not disturb the one pinned to this core; None: any core."""
    return None if core is None else min(os.sched_getaffinity(0) - {core}, default=None)


def noise(window: Window) -> Noise:
    return Noise(foreign=window.foreign, steal=window.steal, load=round(os.getloadavg()[0], 2))
