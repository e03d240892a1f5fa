"""One run of one job: what its handler may do, and how it is stopped from outside."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from mita.errors import JobCancelled, LeaseLost, StoreAway, StoreError
from mita.events.signals import Enqueued
from mita.model.job import Claim, NewJob, State
from mita.model.outcome import Start
from mita.model.time import Moment, Wait
from mita.ports.store import OnceValue
from mita.ports.transactional import completing
from mita.rules.flow import ChildOutcome, pack_child
from mita.rules.states import TERMINAL
from mita.tasks import Suspend, Task
from mita.tasks.added import AddedDraft
from mita.tasks.stored import opened, plain
from mita.traces import carried, doing_step

from .backoff import run_backoff
from .once_locks import OnceLocks
from .progress_writer import ProgressWriter
from .run_context import Halted, RunContext, Stop

log = logging.getLogger("mita.worker")

T = TypeVar("T")

CLEAN_UP_S = 10.0  # for the providers of a run that must stop


class Execution(Struct, eq=False):
    """One run; the handler's `Job` uses it as its `Run`. `deadline` is when the lease ends on this
    machine's monotonic clock, counted from when the request was sent, so it is never too late. It
    is a Struct although it changes: there is one for every job, and a Struct is made in less than
    half the time."""

    claim: Claim
    task: Task[Any, Any]
    context: RunContext
    deadline: float
    since: float  # time of the claim, and of the start once it has started
    waited: float = 0.0  # seconds from the claim to the start
    handler: asyncio.Task[Any] | None = None
    stop: Stop | None = None
    started: bool = False
    begun: bool = False  # a run that could come too late has a thread or a process, and may start
    settled: bool = False  # its ending is known; what the handler still does is ignored
    reports: ProgressWriter | None = None  # few runs report progress
    start: Start | None = None  # until it is reported
    timer: asyncio.TimerHandle | None = None  # of its timeout, on a thread
    locks: OnceLocks | None = None  # of shared once-values that it computes
    error: BaseException | None = None  # what the handler raised, until it is logged
    store_calls: int = 0  # store calls that the handler waits for
    suspended: Suspend | None = None  # the handler sleeps or waits, so its run must end
    added: AddedDraft | None = None  # steps that the handler has added to its flow
    span: Any = None  # of this run, if runs are traced
    after: tuple[bytes, ...] = ()  # the spans of the steps that this one comes after, if known
    injected: Halted | None = None  # of a task with dependencies or middleware

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: `job.cancelled`."""
        return self.stop is not None or self.settled

    @property
    def spent(self) -> float:
        """How many seconds ago the job was claimed."""
        return self.waited + time.monotonic() - self.since

    @property
    def tasks(self) -> Mapping[str, Task[Any, Any]]:
        """The tasks that this worker knows."""
        return self.context.tasks

    @property
    def now(self) -> Moment:
        """The store's time, as far as this run knows it."""
        return self.context.now(self.claim, self.spent)

    def halt(self, why: Stop) -> None:
        """Stop the run. A handler on a thread cannot be stopped; it sees `job.cancelled`. A task
        that has not taken its first step must not be cancelled: it would end without an ending.

        A run that continues after its timeout can still be cancelled. If the worker shuts down, it
        stays timed out. A timeout while the run waits for the store is not the handler's fault.
        Providers that clean up get some time for it."""
        if self.settled:
            return
        if why is Stop.TIMED_OUT and self.store_calls:
            why = Stop.STORE_AWAY
        if self.stop not in (None, Stop.TIMED_OUT):
            return
        if self.stop is None or why is Stop.CANCELLED:
            self.stop = why
        if self.injected is not None and self.injected.is_cleaning_up:
            self.context.loop.call_later(CLEAN_UP_S, self._cancel)
        else:
            self._cancel()

    def _cancel(self) -> None:
        if self.handler is not None and self.started:
            self.handler.cancel()
        elif self.injected is not None:
            self.injected.halt()

    # ------------------------------------------------------------ what the handler's Job uses

    async def report(self, packed: bytes) -> None:
        """Store a progress report, at most a few times a second."""
        self._owned()
        if self.reports is None:
            self.reports = ProgressWriter(self.claim, self.context.store)
            if (self.claim.id, self.claim.token) in self.context.completed:
                self.reports.hold()
        if not await self.reports.add(packed):
            self._lose()

    async def flush_reports(self) -> None:
        """Write the last report before the handler's own transaction settles the job: later it
        would be stale."""
        if self.reports is not None:
            await self._within_lease(self.reports.flush())

    async def close_reports(self) -> None:
        """Write the last report before the run is settled: later it would be stale. The ending of
        the run is known by now, so neither a store that is unreachable for longer than the lease
        nor a cancelled task may keep it from being settled."""
        if self.reports is None or self.settled or self.stop is Stop.LOST:
            return
        try:
            await self._within_lease(self.reports.close())
        except asyncio.CancelledError:
            return

    async def recall(self, name: str, shared: bool) -> bytes | None:
        """Returns the stored once-value of this name; None if there is none."""
        value = await self._ask(lambda: self.context.store.load_once(self.claim, name, shared))
        return None if value is None else opened(value)

    async def recall_all(self) -> dict[str, bytes]:
        """Returns all values that this job has stored, and its signals, by name."""
        values = await self._ask(lambda: self.context.store.once_values(self.claim.id))
        return {name: opened(value) for name, value in values.items()}

    async def take_once(self, name: str) -> bytes | None:
        """Returns the stored value, or None when this run has its lock and must compute it. Raises
        JobCancelled if the run is asked to stop meanwhile."""
        context = self.context
        locks = self.locks = self.locks or OnceLocks(self.claim, context.store, context.lease)
        holder, backoff = locks.new_holder(), run_backoff()
        while True:
            known = await self.recall(name, True)
            if known is not None:
                return known
            if await self._ask(lambda: locks.take(name, holder)):
                return await self._recall_locked(locks, name)
            if self.stop is not None:
                raise JobCancelled(
                    self.claim.id, f"it was asked to stop while it waited for once({name!r})"
                )
            await backoff.sleep()

    async def _recall_locked(self, locks: OnceLocks, name: str) -> bytes | None:
        """Returns the value if another run has stored it before this one got the lock."""
        try:
            known = await self.recall(name, True)
        except BaseException:
            await locks.release(name)
            raise
        if known is not None:
            await locks.release(name)
        return known

    async def release_once(self, name: str) -> None:
        """Let other runs compute the shared value of this name."""
        if self.locks is not None:
            await self.locks.release(name)

    async def remember(self, name: str, value: bytes, keep: Wait | None) -> bytes | None:
        """Store a once-value. Returns the stored one, which may be that of another run."""
        once_value = OnceValue(claim=self.claim, name=name, value=value, keep=keep)
        stored = await self._ask(lambda: self.context.store.store_once(once_value))
        return None if stored is None else opened(stored)

    def doing_step(self, name: str) -> AbstractContextManager[None]:
        """The span of a step of this run, if runs are traced."""
        return doing_step(name)

    async def start_child(self, job: NewJob) -> None:
        """Enqueue a child of this job; one that exists stays as it is."""
        if self.span is not None:
            job = replace(job, headers=carried(self.span))
        receipts = await self._ask(lambda: self.context.store.enqueue([job]))
        self.context.emit(Enqueued([job], receipts, self.now, are_children=True))

    async def child_outcome(self, id: str) -> bytes | None:
        """Returns how a child has ended, packed; None if it has not. A child that is gone was
        deleted by a person."""
        [job] = await self._ask(lambda: self.context.store.find([id]))
        if job is None:
            return pack_child(ChildOutcome(State.CANCELLED, None, "it was deleted"))
        if job.state not in TERMINAL:
            return None
        return pack_child(ChildOutcome(job.state, job.result, job.error or ""))

    def unpack_result(self, task: str, packed: bytes) -> Any:
        """Returns the result of a task, by its return annotation if this worker knows the task."""
        known = self.context.tasks.get(task)
        return plain(packed) if known is None else known.arguments.unpack_result(packed)

    async def complete(self, connection: Any, result: bytes) -> None:
        """Settle the job as succeeded in the handler's own transaction."""
        self._owned()
        store = completing(self.context.store)
        await self.flush_reports()
        await store.complete_in(connection, self.claim, result, self.context.keep.succeeded)
        self.completed()

    def complete_sync(self, connection: Any, result: bytes) -> None:
        """`complete`, for a sync handler."""
        self._owned()
        store = completing(self.context.store)
        if self.reports is not None:
            self.call(self.flush_reports())
        store.complete_in_sync(connection, self.claim, result, self.context.keep.succeeded)
        self.completed()

    def completed(self) -> None:
        """Note that the handler settled its claim in its own transaction."""
        self.context.completed.add((self.claim.id, self.claim.token))
        if self.reports is not None:
            self.reports.hold()

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Call the store, and retry while it is unreachable, until the current lease is nearly
        over. Raises StoreAway then."""
        end = self.deadline
        backoff = run_backoff()
        self.store_calls += 1
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
            self.store_calls -= 1

    async def _within_lease(self, writing: Coroutine[Any, Any, None]) -> None:
        """Wait for `writing` until the current lease is over, and log it if that was too short."""
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
        """From a handler's thread: run `coro` on the worker's event loop and return its result."""
        if threading.get_ident() == self.context.thread:
            coro.close()
            raise RuntimeError(
                "the _sync methods are for handlers that are plain functions; here use await"
            )
        return asyncio.run_coroutine_threadsafe(coro, self.context.loop).result()

    def _owned(self) -> None:
        if self.stop is Stop.LOST:
            self._lose()

    def _lose(self) -> None:
        raise LeaseLost(f"job {self.claim.id} is no longer this run's: its lease expired")
