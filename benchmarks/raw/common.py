"""What the raw loops share."""

import time
from collections.abc import Callable

import msgspec
from msgspec import Struct

from benchmarks.processes import cpu

BATCH_JOBS = 500
PAYLOAD = msgspec.msgpack.encode(
    [123456, "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWX"]
)


class Ask(Struct, frozen=True, kw_only=True):
    """`seconds` bounds the single enqueues; `server` is the server's process id."""

    url: str
    jobs: int
    seconds: float
    core: int | None = None
    server: int | None = None


class Phase(Struct, frozen=True, kw_only=True):
    jobs: int
    seconds: float
    cpu: float
    server_cpu: float | None = None

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


class Timer:
    """Times phases of a loop by name."""

    def __init__(self, ask: Ask) -> None:
        self._server = ask.server
        self.phases: dict[str, Phase] = {}
        self._began = 0.0
        self._cpu = 0.0
        self._server_cpu = 0.0

    def begin(self) -> None:
        self._server_cpu = cpu(self._server) if self._server else 0.0
        self._cpu, self._began = time.process_time(), time.perf_counter()

    def end(self, phase: str, jobs: int) -> None:
        seconds, used = time.perf_counter() - self._began, time.process_time() - self._cpu
        server = cpu(self._server) - self._server_cpu if self._server else None
        self.phases[phase] = Phase(jobs=jobs, seconds=seconds, cpu=used, server_cpu=server)

    def singles(self, seconds: float, add: Callable[[], object]) -> None:
        """Add one job after the other for this many seconds."""
        self.begin()
        until, jobs = time.perf_counter() + seconds, 0
        while time.perf_counter() < until:
            add()
            jobs += 1
        self.end("one", jobs)
