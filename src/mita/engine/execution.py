"""One run of one job: what it may do while it runs, and what may be done to it."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum, auto
from typing import Any, TypeVar

from msgspec import Struct

from mita.errors import JobCancelled, LeaseLost, StoreAway, StoreError
from mita.model.job import Claim
from mita.model.outcome import Start
from mita.model.time import Wait
from mita.ports.ids import new_id
from mita.ports.store import OnceValue, Store, transactional
from mita.rules.judge import Retention
from mita.tasks import Task
from mita.traces import tracer

from .backoff import run_backoff
from .progress_writer import ProgressWriter

log = logging.getLogger("mita.worker")

T = TypeVar("T")


class Stop(Enum):
    """Why a run is being stopped from outside."""

    CANCELLED = auto()
    TIMED_OUT = auto()
    LOST = auto()
    SHUTDOWN = auto()
    STORE_AWAY = auto()


class RunContext:
    """What all runs of one worker share. `completed` holds those that were settled in a transaction
    of the handler's own."""

    __slots__ = ("completed", "keep", "lease", "loop", "room", "store", "thread", "tracer")

    def __init__(self, store: Store, keep: Retention, lease: Wait) -> None:
        self.store = store
        self.room = store.room
        self.keep = keep
        self.lease = lease
        self.loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self.completed: set[tuple[str, int]] = set()
        self.tracer = tracer()  # set again for each batch of claims

    def was_completed(self, claim: Claim) -> bool:
        """Did the handler settle this claim in a transaction of its own? Asked once, when its
        verdict came too late."""
        key = claim.id, claim.token
        if key in self.completed:
            self.completed.remove(key)
            return True
        return False


class Execution(Struct, eq=False):
    """Lent to the handler as its `Run`. `deadline` is when its lease ends on this machine's
    monotonic clock, counted from the moment the request was sent, so it is never too late. A
    Struct, though it changes: there is one for every job, and it is made in less than half the
    time."""

    claim: Claim
    task: Task[Any, Any]
    home: RunContext
    deadline: float
    since: float  # of the claim; of the start, once it has started
    handler: asyncio.Task[None] | None = None
    stop: Stop | None = None
    started: bool = False
    settled: bool = False  # its ending is known; what the handler may still do does not count
    reports: ProgressWriter | None = None  # few runs tell how far they have come
    start: Start | None = None  # until somebody was told of it
    timer: asyncio.TimerHandle | None = None  # its time-out, if it runs on a thread
    # of shared values that it computes: name and holder, read by the lease keeper
    locks: dict[str, str] | None = None
    error: BaseException | None = None  # what the handler raised, until it is logged
    asking: int = 0  # calls of the handler that wait for the store's answer

    @property
    def cancelled(self) -> bool:
        return self.stop is not None or self.settled

    def halt(self, why: Stop) -> None:
        """Tell the run to stop. A handler on a thread can only be told; it sees `job.cancelled`. A
        task that has not taken its first step must not be cancelled: it would end without a word. A
        run that goes on after its time-out can still be cancelled, or told that the worker shuts
        down; it stays timed out in the latter case. A time-out that finds the run waiting for the
        store is not the handler's fault."""
        if self.settled:
            return
        if why is Stop.TIMED_OUT and self.asking:
            why = Stop.STORE_AWAY
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
            self.reports = ProgressWriter(self.claim, self.home.store)
            if (self.claim.id, self.claim.token) in self.home.completed:
                self.reports.hold()
        if not await self.reports.add(packed):
            self._lose()

    async def flush_reports(self) -> None:
        """Before the handler's own transaction settles the job: after that they would be stale."""
        if self.reports is not None:
            await self._within_lease(self.reports.flush())

    async def close_reports(self) -> None:
        """Before the run is put down: after that they would be stale. Its ending is known by now,
        so neither a store that is unreachable for longer than the lease nor a cancel, of ours or of
        the handler itself, may keep it from being put down."""
        if self.reports is None or self.settled or self.stop is Stop.LOST:
            return
        try:
            await self._within_lease(self.reports.close())
        except asyncio.CancelledError:
            return

    async def recall(self, name: str, shared: bool) -> bytes | None:
        return await self._ask(lambda: self.home.store.load_once(self.claim, name, shared))

    async def take_once(self, name: str) -> bytes | None:
        """The lock lasts for one lease. The lease keeper extends it while this run computes the
        value, so a run that dies is replaced when its lease is over."""
        lock, holder = _once_lock(name), f"{self.claim.id}:{self.claim.token}:{new_id()}"
        backoff = run_backoff()
        while True:
            known = await self.recall(name, True)
            if known is not None:
                return known
            if await self._ask(lambda: self.home.store.lock(lock, holder, self.home.lease)):
                self.locks = {**(self.locks or {}), lock: holder}
                # another run may have stored it before we had the lock
                known = await self.recall(name, True)
                if known is not None:
                    await self.release_once(name)
                return known
            if self.stop is not None:
                raise JobCancelled(
                    self.claim.id, f"it was told to stop while it waited for once({name!r})"
                )
            await backoff.sleep()

    async def release_once(self, name: str) -> None:
        """A lock that cannot be released, because the store is unreachable, ends with its time."""
        lock = _once_lock(name)
        locks = dict(self.locks or {})
        holder = locks.pop(lock, None)
        self.locks = locks or None
        if holder is not None:
            try:
                await self.home.store.unlock(lock, holder)
            except StoreError as error:
                log.warning("job %s could not release once(%r): %s", self.claim.id, name, error)

    async def remember(self, name: str, value: bytes, keep: Wait | None) -> bytes | None:
        memo = OnceValue(claim=self.claim, name=name, value=value, keep=keep)
        return await self._ask(lambda: self.home.store.store_once(memo))

    async def complete(self, connection: Any, result: bytes) -> None:
        self._owned()
        store = transactional(self.home.store)
        await self.flush_reports()
        await store.complete_in(connection, self.claim, result, self.home.keep.succeeded)
        self.completed()

    def complete_sync(self, connection: Any, result: bytes) -> None:
        self._owned()
        store = transactional(self.home.store)
        if self.reports is not None:
            self.call(self.flush_reports())
        store.complete_in_sync(connection, self.claim, result, self.home.keep.succeeded)
        self.completed()

    def completed(self) -> None:
        """The handler settled its claim in a transaction of its own."""
        self.home.completed.add((self.claim.id, self.claim.token))
        if self.reports is not None:
            self.reports.hold()

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Call the store, and call it again while it is unreachable, for as long as the lease lasts
        that we have now."""
        end = self.deadline
        backoff = run_backoff()
        self.asking += 1
        try:
            while True:
                self._owned()
                try:
                    return await ask()
                except StoreError as error:
                    if not error.transient or self.stop is not None:
                        raise
                    pause = backoff.fail()
                    if time.monotonic() + pause >= end:
                        text = (
                            f"job {self.claim.id} waited for its store until its lease was "
                            f"nearly over: {error}"
                        )
                        raise StoreAway(text) from error
                    log.debug("job %s waits for its store: %s", self.claim.id, error)
                await asyncio.sleep(pause)
        finally:
            self.asking -= 1

    async def _within_lease(self, writing: Coroutine[Any, Any, None]) -> None:
        """Until it is done or the lease is over that we have now. A report that could not be
        written is said."""
        left = self.deadline - time.monotonic()
        try:
            async with asyncio.timeout(left if left < math.inf else None):
                await writing
        except TimeoutError:
            log.warning(
                "the last progress of job %s could not be written: the store is unreachable",
                self.claim.id,
            )

    def call(self, coro: Coroutine[Any, Any, T]) -> T:
        """From a handler's thread: run this on the worker's loop and wait for it."""
        if threading.get_ident() == self.home.thread:
            coro.close()
            raise RuntimeError(
                "the _sync methods are for handlers that are plain functions; here use await"
            )
        return asyncio.run_coroutine_threadsafe(coro, self.home.loop).result()

    def _owned(self) -> None:
        if self.stop is Stop.LOST:
            self._lose()

    def _lose(self) -> None:
        raise LeaseLost(f"job {self.claim.id} is no longer this run's: its lease ran out")


def _once_lock(name: str) -> str:
    """The lock of a shared value, apart from the names of other locks."""
    return f"once:{name}"
