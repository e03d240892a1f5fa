"""One store, the processes that work on it, and the faults that a test causes."""

import asyncio
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from mita.model.job import Job, State
from mita.model.view import JobFilter
from mita.ports.store import Store
from mita.tasks import Call
from tests.waiting import LIMIT_S, until

from . import program
from .checker import Acked, Expect, Fault, History, Report, check
from .jobs import Works
from .program import Settings
from .record import Line, Record

SOAK = os.environ.get("MITA_SOAK", "") not in ("", "0")
SEED = int(os.environ.get("MITA_SEED", "0")) or random.SystemRandom().randrange(1, 1_000_000)
SLACK = 15.0  # how much longer anything may take on two cores that other programs use too
NO_LOSS_LEASE_S = 15.0  # for a test without faults: a busy machine does not lose it

# A server that has everything imported and forks: a process costs 10 ms and not 300.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", "tests.e2e.program", "mita.stores.sqlite"])


def scaled(short: int, long: int) -> int:
    """The size of a test: `short` in every run, `long` with MITA_SOAK=1."""
    return long if SOAK else short


class Asked(Struct, frozen=True):
    """A job to be enqueued, and how it must end."""

    call: Call[Any]
    expect: Expect


class Process:
    """A child process. `who` is its number in the record; unlike a process id it is not reused."""

    def __init__(self, settings: Settings) -> None:
        self.who = settings.who
        self.settings = settings
        self._process = FORKS.Process(
            target=program.main, args=(msgspec.json.encode(settings),), daemon=True
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code; None while it is alive, and below 0 if a signal killed it."""
        return self._process.exitcode

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def is_still(self) -> bool:
        """Whether it and all its threads are stopped: a thread that waits for a lock may still
        get it before it stops."""
        threads = Path(f"/proc/{self.pid}/task").glob("*/stat")
        return all(thread.read_text().rpartition(") ")[2][0] in "Tt" for thread in threads)

    async def gone(self, within: float = LIMIT_S) -> int:
        await until(lambda: self.code is not None, f"process {self.who} ends", within)
        assert self.code is not None
        return self.code

    def clear(self) -> None:
        """Kill it if it still runs, and free what it holds."""
        if self.code is None:
            self._process.kill()
        self._process.join(10)
        self._process.close()


class Scene:
    """A store with its processes and the record of what they did."""

    def __init__(
        self, folder: Path, url: str, remarks: list[tuple[str, object]], lease: float = 1.0
    ) -> None:
        self.folder, self.url, self.lease = folder, url, lease
        self._remarks = remarks
        self.random = random.Random(SEED)
        self.record = Record(folder / "record.jsonl")
        self.works = Works(url)
        self.processes: list[Process] = []
        self.acked: list[Acked] = []
        self.faults: list[Fault] = []
        self.unsure: set[int] = set()
        self.server_kills: list[float] = []
        self.unsynced_claims_s = 0.0
        self._numbers = 0

    @property
    def app(self) -> Any:
        return self.works.app

    async def store(self) -> Store:
        return await self.works.app._store()

    # ------------------------------------------------------------ processes

    def gate(self, name: str) -> Path:
        return self.folder / f"gate-{name}"

    def start(
        self,
        role: str = "worker",
        *,
        gate: str = "",
        worker: dict[str, Any] | None = None,
        **more: Any,
    ) -> Process:
        who = len(self.processes) + 1
        chosen = {"lease": self.lease, "poll": 0.25, **(worker or {})} if role == "worker" else {}
        settings = msgspec.convert(
            {
                "role": role,
                "who": who,
                "url": self.url,
                "record": str(self.record.path),
                "gate": str(self.gate(gate or str(who))),
                "worker": chosen,
                **more,
            },
            Settings,
        )
        process = Process(settings)
        self.processes.append(process)
        return process

    def worker(
        self, *, gate: str = "", point: str = "", deaf: bool = False, **options: Any
    ) -> Process:
        return self.start(gate=gate, point=point, deaf=deaf, worker=options)

    async def ready(self, *processes: Process) -> None:
        """Wait until these processes handle signals."""
        for process in processes:
            await until(
                partial(self.lines, "ready", who=process.who), f"process {process.who} is ready"
            )

    def worker_id(self, process: Process) -> str:
        return self.lines("ready", who=process.who)[0].text

    def lines(self, what: str, **wanted: Any) -> list[Line]:
        found = self.record.lines(what)
        return [
            line
            for line in found
            if all(getattr(line, name) == value for name, value in wanted.items())
        ]

    async def started(
        self, *numbers: int, by: Process | None = None, within: float = LIMIT_S
    ) -> None:
        """Wait until these jobs have started (in this process)."""

        def missing() -> set[int]:
            return set(numbers) - {
                line.n for line in self.record.lines("start") if by is None or line.who == by.who
            }

        await until(lambda: not missing(), f"jobs {sorted(missing())} start", within)

    # ------------------------------------------------------------ faults

    def fault(self, process: Process, kind: str) -> None:
        self.faults.append(Fault(process.who, kind, time.monotonic(), time.time()))

    async def kill(self, process: Process) -> None:
        """Kill it with SIGKILL, as the kernel does when memory runs out: it cannot clean up."""
        assert process.code is None, f"process {process.who} has ended by itself\n{self.troubles()}"
        process.signal(signal.SIGKILL)
        await process.gone()
        self.fault(process, "kill")

    async def died(self, process: Process, within: float = LIMIT_S) -> None:
        """Wait until it has killed itself."""
        assert await process.gone(within) == -signal.SIGKILL, self.troubles()
        self.fault(process, "kill")

    async def freeze(self, process: Process) -> None:
        """Stop it, but not inside a transaction: on a SQLite file that would stop all processes."""
        store = await self.store()
        while True:
            process.signal(signal.SIGSTOP)
            await until(process.is_still, f"process {process.who} stands still")
            try:
                async with asyncio.timeout(self.lease / 5):
                    await store.leave("nobody")
                break
            except TimeoutError:
                process.signal(signal.SIGCONT)
                # the other processes need the lock for a while
                await asyncio.sleep(self.lease * self.random.uniform(0.4, 0.6))
        self.fault(process, "stop")

    def thaw(self, process: Process) -> None:
        process.signal(signal.SIGCONT)

    async def stop(self, *processes: Process, within: float = LIMIT_S) -> None:
        """Send SIGTERM, as a deploy does, and check that each process ends with exit code 0."""
        await self.ready(*processes)
        for process in processes:
            process.signal(signal.SIGTERM)
        for process in processes:
            assert await process.gone(within) == 0, self.troubles()

    # ------------------------------------------------------------ jobs

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def numbers(self, count: int) -> tuple[int, int]:
        """The numbers of `count` jobs, for a producer."""
        first = self._numbers + 1
        self._numbers += count
        return first, first + count

    async def enqueue(self, asked: Sequence[Asked]) -> list[str]:
        before = time.time()
        handles = await self.app.enqueue_many([each.call for each in asked])
        for each, handle in zip(asked, handles, strict=True):
            n = msgspec.msgpack.decode(each.call.payload)["n"]
            self.acked.append(Acked(n, handle.id, each.expect, before))
        return [handle.id for handle in handles]

    def acknowledge(self, lines: Iterable[Line], expect: Expect | None = None) -> None:
        """Jobs whose enqueue a producer has recorded as acknowledged."""
        self.acked += [Acked(line.n, line.job, expect or Expect(attempts=0), 0.0) for line in lines]

    async def finished(self, within: float = 60.0, *, repeats: bool = False) -> None:
        """Wait until no job is left to run."""
        end = time.monotonic() + within
        while await self._left(repeats):
            assert time.monotonic() < end, (
                f"not finished within {within:g} s: {await self.app.counts()}; "
                f"{await self._unfinished()}; {self.troubles()}"
            )
            await asyncio.sleep(0.05)

    async def _unfinished(self) -> str:
        """The first jobs that have not ended, each with its timeline and why it does not run."""
        store, lines = await self.store(), [f"seed {SEED}"]
        for state in (State.RUNNING, State.QUEUED, State.BLOCKED):
            for job in (await store.page(JobFilter(state=state), None, 5)).jobs:
                reasons = [str(reason) for reason in await self.app.explain(job.id)]
                lines += [str(job), str(await store.timeline(job.id)), *reasons]
        return "\n".join(lines)

    async def _left(self, repeats: bool) -> bool:
        if repeats and any(repeat.state == "active" for repeat in await self.app.repeats.all()):
            return True
        alive = ("scheduled", "ready", "blocked", "running")
        return any(queue[state] for queue in (await self.app.counts()).values() for state in alive)

    async def job(self, id: str) -> Job:
        [job] = await (await self.store()).find([id])
        assert job is not None
        return job

    # ------------------------------------------------------------ the end

    def troubles(self) -> str:
        """The warnings and errors of the processes."""
        texts = [
            f"{line.who}: {line.text}" for line in self.record.lines("error", "alarm", "warning")
        ]
        codes = {process.who: process.code for process in self.processes}
        died = [f"{line.who}: {line.text}" for line in self.record.lines("error")]
        return "\n".join([f"exit codes {codes}", *texts[-20:], *died])

    def errors(self) -> list[str]:
        """Errors that no process may have: uncaught exceptions, and parts of a worker that died."""
        found = self.record.lines("error", "alarm")
        # a failed job is not an error of a process
        return [line.text for line in found if not line.text.startswith("job ")]

    async def history(self) -> History:
        store = await self.store()
        jobs: dict[str, Job] = {}
        after: str | None = None
        while True:
            page = await store.page(JobFilter(), after, 1000)
            jobs.update((job.id, job) for job in page.jobs)
            if (after := page.after) is None:
                break
        crashed = {
            job.id: [
                event.at
                for event in await store.timeline(job.id)
                if event.kind in ("crashed", "failed")
            ]
            for job in jobs.values()
            if job.crashes
        }
        counted = sum(sum(queue.values()) for queue in (await self.app.counts()).values())
        return History(
            lines=self.record.lines(),
            jobs=jobs,
            acked=self.acked,
            counted=counted,
            faults=self.faults,
            unsure=self.unsure,
            crashed=crashed,
            server_kills=self.server_kills,
            unsynced_claims_s=self.unsynced_claims_s,
            heal_within=self.lease + self.lease / 2 * 1.25 + SLACK,  # lease, sweep, two busy cores
        )

    def tell(self, what: str) -> None:
        """Show this at the end of the test run."""
        self._remarks.append(("remark", what))
        print(what)

    async def check(self) -> Report:
        """Check every invariant, and return the report."""
        report = check(await self.history())
        self.tell(f"seed {SEED}: {report}")
        assert not report.violations, f"{report}\n{self.troubles()}"
        assert not self.errors(), "\n".join(self.errors())
        return report

    async def close(self) -> None:
        for process in self.processes:
            process.clear()
        await self.app.close()
        self.record.close()
