"""One run of one job: what it may do while it runs, and what may be done to it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from enum import Enum, auto
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from mita.errors import LeaseLost
from mita.model.job import Claim
from mita.model.outcome import Ending, Start
from mita.model.time import Wait
from mita.ports.store import Memo, Store, transactional
from mita.rules.judge import Keep
from mita.tasks import Task
from mita.traces import tracer

from .reports import Reports

T = TypeVar("T")


LONGEST_LAST_WORD = 2.0  # seconds that a run waits for its last progress to be written


class Stop(Enum):
    """Why a run is being stopped from outside."""

    CANCELLED = auto()
    TIMED_OUT = auto()
    LOST = auto()
    SHUTDOWN = auto()


class Home:
    """What all runs of one worker share. `completed` holds those that were settled in a transaction of the handler's own."""

    __slots__ = ("completed", "keep", "loop", "room", "store", "thread", "tracer")

    def __init__(self, store: Store, keep: Keep) -> None:
        self.store = store
        self.room = store.room
        self.keep = keep
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.completed: set[tuple[str, int]] = set()
        self.look_for_tracer()

    def look_for_tracer(self) -> None:
        """None, unless the program has set up tracing by now. Asked once for each batch of jobs, never for a job."""
        self.tracer = tracer()


class Execution(Struct, eq=False):
    """Lent to the handler as its `Run`. `deadline` is when its lease ends on this machine's monotonic clock, counted from
    the moment the request was sent, so it is never too late. A Struct, though it changes: there is one for every job, and
    it is made in less than half the time."""

    claim: Claim
    task: Task[Any, Any]
    home: Home
    deadline: float
    since: float  # of the claim; of the start, once it has started
    handler: asyncio.Task[None] | None = None
    stop: Stop | None = None
    started: bool = False
    settled: bool = False  # its ending is known; what the handler may still do does not count
    reports: Reports | None = None  # few runs tell how far they have come
    start: Start | None = None  # until somebody was told of it
    timer: asyncio.TimerHandle | None = None  # its time-out, if it runs on a thread

    @property
    def cancelled(self) -> bool:
        return self.stop is not None or self.settled

    def halt(self, why: Stop) -> None:
        """Tell the run to stop. A handler on a thread can only be told; it sees `job.cancelled`. A task that has not taken
        its first step must not be cancelled: it would end without a word. A run that goes on after its time-out can still
        be cancelled, or told that the worker shuts down; it stays timed out in the latter case."""
        if self.stop not in (None, Stop.TIMED_OUT):
            return
        if self.stop is None or why is Stop.CANCELLED:
            self.stop = why
        if self.handler is not None and self.started:
            self.handler.cancel()

    # ------------------------------------------------------------ what the handler's Job uses

    async def report(self, packed: bytes) -> None:
        """Write progress down, but not more often than is of use to a reader."""
        self._owned()
        if self.reports is None:
            self.reports = Reports(self.claim, self.home.store)
        if not await self.reports.add(packed):
            self._lose()

    async def close_reports(self) -> None:
        """Before the run is put down: after that they would be stale. Its ending is known by now, so neither a store that
        hangs nor a cancel, of ours or of the handler itself, may keep it from being put down."""
        if self.reports is None or self.settled or self.stop is Stop.LOST:
            return
        try:
            async with asyncio.timeout(LONGEST_LAST_WORD):
                await self.reports.close()
        except (TimeoutError, asyncio.CancelledError):
            return

    async def recall(self, name: str, shared: bool) -> bytes | None:
        self._owned()
        return await self.home.store.recall(self.claim, name, shared)

    async def remember(self, name: str, value: bytes, keep: Wait | None) -> bytes | None:
        self._owned()
        return await self.home.store.remember(Memo(claim=self.claim, name=name, value=value, keep=keep))

    async def complete(self, connection: Any, result: bytes) -> None:
        self._owned()
        store = transactional(self.home.store)
        await store.complete_in(connection, self.claim, result, self.home.keep.succeeded)
        self.completed()

    def complete_sync(self, connection: Any, result: bytes) -> None:
        self._owned()
        store = transactional(self.home.store)
        store.complete_in_sync(connection, self.claim, result, self.home.keep.succeeded)
        self.completed()

    def completed(self) -> None:
        """The handler settled its claim in a transaction of its own."""
        self.home.completed.add((self.claim.id, self.claim.token))

    def call(self, coro: Coroutine[Any, Any, T]) -> T:
        """From a handler's thread: run this on the worker's loop and wait for it."""
        if threading.get_ident() == self.home.thread:
            coro.close()
            raise RuntimeError("the _sync methods are for handlers that are plain functions; here use await")
        return asyncio.run_coroutine_threadsafe(coro, self.home.loop).result()

    def _owned(self) -> None:
        if self.stop is Stop.LOST:
            self._lose()

    def _lose(self) -> None:
        raise LeaseLost(f"job {self.claim.id} is no longer this run's: its lease ran out")


Done: TypeAlias = Callable[[Execution, Ending], None]  # who is told, on the loop, how a run ended
