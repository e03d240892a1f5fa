"""Extends the leases and sends heartbeats: on its own thread and with its own store, so that no
handler can hold it up."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from mita.errors import MitaError
from mita.flows.ended import is_step
from mita.flows.runs import conclude_settled
from mita.model.outcome import Held, Settlement
from mita.model.time import SECOND, Wait
from mita.model.view import WorkerView
from mita.ports.backoff import wait_up_to
from mita.ports.clock import StoreClock
from mita.ports.store import Store
from mita.rules.judge import Retention

from .backoff import within
from .execution import Execution
from .executor import Executor
from .loop_watchdog import LoopWatchdog
from .once_locks import LockExtender
from .run_context import Stop

log = logging.getLogger("mita.worker")

LEASE_BEATS = 3  # in one lease
FIRST_PAUSE_S = 1.0  # between the first two heartbeats; then twice as long each time
LEASE_CHECKS = 10  # of the deadlines, in one lease
EXTEND_JOBS = 1000
GOODBYE_TIMEOUT_S = 1.0  # for each of two calls to a store that may be unreachable
STOP_TIMEOUT_S = 2.5  # that a worker waits for the thread


class LeaseKeeper:
    """Keeps the leases of what `executor` holds, and sets the offset of `clock`. `describe` returns
    the worker's view of itself for the registry; it is called on the keeper's thread. `keep` is how
    long jobs are kept that ended."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        executor: Executor,
        lease: Wait,
        clock: StoreClock,
        describe: Callable[[], WorkerView],
        keep: Retention,
    ) -> None:
        self._open_store, self._executor, self._lease = open_store, executor, lease
        self._clock, self._describe, self._retention = clock, describe, keep
        self._loop = asyncio.get_running_loop()
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._beat_due: asyncio.Event | None = None
        self._leaving = False
        self._store: Store | None = None
        # done when the leases are no longer kept
        self.over: asyncio.Future[None] = self._loop.create_future()
        self._locks = LockExtender()
        self._watchdog = LoopWatchdog(self._loop)
        self._thread = threading.Thread(target=self._main, name="mita-keeper", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def beat_now(self) -> None:
        """Send a heartbeat now: a running job may have been cancelled."""
        if self._own_loop is not None and self._beat_due is not None:
            with suppress(RuntimeError):  # its loop is closed; `over` reports why
                self._own_loop.call_soon_threadsafe(self._beat_due.set)

    async def stop(self) -> None:
        """Send a last heartbeat, sign the worker off and wait for the thread, but not for long."""
        self._leaving = True
        self.beat_now()
        await self._loop.run_in_executor(None, self._thread.join, STOP_TIMEOUT_S)

    def settle(self, settlements: Sequence[Settlement], seconds: float) -> bool:
        """From any other thread: settle these with the keeper's own store, for a worker whose event
        loop is blocked. Returns whether the store answered in time."""
        if self._own_loop is None or self._store is None:
            return False
        settling = self._settle(self._store, settlements)
        try:
            asyncio.run_coroutine_threadsafe(settling, self._own_loop).result(seconds)
        except Exception as error:  # noqa: BLE001 - the process ends now, whatever it was
            settling.close()
            log.warning("could not settle jobs at the end: %s", str(error) or type(error).__name__)
            return False
        return True

    async def _settle(self, store: Store, settlements: Sequence[Settlement]) -> None:
        for start in range(0, len(settlements), EXTEND_JOBS):
            some = settlements[start : start + EXTEND_JOBS]
            took = await store.settle(some)
            if any(is_step(one.claim.id) for one in some):
                await conclude_settled(store, some, took, self._retention)

    def _main(self) -> None:
        try:
            asyncio.run(self._keep())
        except Exception as error:  # noqa: BLE001
            # the worker must know, or its leases end unnoticed
            self._loop.call_soon_threadsafe(self._died, error)

    def _died(self, error: Exception) -> None:
        log.critical("the lease keeper died, so this worker stops", exc_info=error)
        if not self.over.done():
            self.over.set_exception(error)

    async def _keep(self) -> None:
        self._own_loop, self._beat_due = asyncio.get_running_loop(), asyncio.Event()
        watch = asyncio.create_task(self._watch(self._lease / SECOND / LEASE_CHECKS))
        pause = self._lease / SECOND / LEASE_BEATS
        # the first beats are close together, so that `mita workers` soon shows a new worker's state
        early = FIRST_PAUSE_S
        while not self._leaving:
            self._beat_due.clear()
            try:
                self._store = self._store or await self._open_store()
                await self._beat(self._store)
            except MitaError as error:
                log.warning("a heartbeat failed: %s", error)
                await wait_up_to(pause / 4, self._beat_due)
                continue
            await wait_up_to(min(pause, early), self._beat_due)
            early *= 2
        watch.cancel()
        if self._store is not None:
            await self._sign_off(self._store)

    async def _watch(self, pause: float) -> None:
        """Check the deadlines beside the heartbeats: a store that hangs does not raise an error."""
        while True:
            await asyncio.sleep(pause)
            self._check_deadlines()
            self._watchdog.check()

    async def _beat(self, store: Store) -> None:
        held = list(self._executor.held)
        for start in range(0, len(held), EXTEND_JOBS):
            await self._extend(store, held[start : start + EXTEND_JOBS])
        await self._locks.extend(store, held, self._lease)
        view = self._describe()
        before = time.time()
        now = await store.beat(view, self._lease)
        self._clock.offset = round((before + time.time()) / 2 * SECOND) - now

    async def _extend(self, store: Store, held: list[Execution]) -> None:
        sent = time.monotonic()
        answers = await store.extend([execution.claim for execution in held], self._lease)
        for execution, answer in zip(held, answers, strict=True):
            if answer is Held.LOST:
                self._report_lost(execution)
                continue
            execution.deadline = sent + self._lease / SECOND
            if answer is Held.CANCEL:
                self._loop.call_soon_threadsafe(execution.halt, Stop.CANCELLED)

    def _check_deadlines(self) -> None:
        """While the store is unreachable, the clock of this machine says which leases are lost."""
        now = time.monotonic()
        for execution in list(self._executor.held):
            if execution.deadline <= now:
                self._report_lost(execution)

    def _report_lost(self, execution: Execution) -> None:
        self._loop.call_soon_threadsafe(self._executor.lose, execution)

    async def _sign_off(self, store: Store) -> None:
        await within(
            GOODBYE_TIMEOUT_S, "sign this worker off", lambda: store.leave(self._describe().id)
        )
        await within(GOODBYE_TIMEOUT_S, "close the store of the heartbeats", store.close)
