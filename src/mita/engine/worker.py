"""A worker: its parts, how they start, and how they stop."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, nullcontext
from functools import partial
from importlib.metadata import version
from typing import Any

from mita.errors import StoreError
from mita.events import EventBus
from mita.model.time import SECOND
from mita.model.view import WorkerView
from mita.ports.acting import noted
from mita.ports.clock import StoreClock
from mita.ports.ids import incarnation
from mita.ports.outbox import JobOutbox
from mita.ports.store import ASKED, REPEATS, Store
from mita.rules.claim_size import jobs_to_claim
from mita.rules.judge import Retention
from mita.rules.own_tasks import BULK_TASK
from mita.settings import WorkerSettings
from mita.sync import runs_jobs
from mita.tasks import Task
from mita.tasks.injection import Wiring

from .backoff import reach, within
from .blocking import run_until_stopped
from .claim_loop import ClaimLoop
from .context import WorkerContext
from .emptiness import is_empty
from .executor import Executor
from .history_writer import HistoryWriter
from .lease_keeper import LeaseKeeper
from .processes import ProcessPlan
from .rates import Rates
from .scheduler import Scheduler, fire_due
from .shared_values import SharedValues
from .startup import Serve, opened
from .sweeper import Sweeper

log = logging.getLogger("mita.worker")

CANCEL_GRACE_S = 2.0  # for a handler to clean up when it is cancelled
LAST_SETTLE_S = 2.0  # for the store to take back the jobs that did not end
LAST_COUNT_S = 1.0  # for the store to add the last runs to the history


class Worker:
    """Call `run`, and `stop` to end it: the first `stop` lets running jobs end within the grace
    time, a second one leaves at once."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        tasks: Mapping[str, Task[Any, Any]],
        wiring: Wiring,
        settings: WorkerSettings,
        retention: Retention,
        keep_most: int,
        bus: EventBus,
        declare_repeats: Callable[[], Awaitable[None]] | None = None,
        serve: Serve = nullcontext,
        processes: ProcessPlan | None = None,
        outbox: JobOutbox | None = None,
    ) -> None:
        self._open_store, self._tasks, self._settings = open_store, tasks, settings
        self._wiring = wiring
        self._retention, self._keep_most = retention, keep_most
        self._bus, self._declare_repeats, self._serve = bus, declare_repeats, serve
        self.processes = processes
        self._outbox = outbox
        self._clock = StoreClock()
        self.max_jobs_reached = False  # then another worker should replace it
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._started = 0
        self._is_assembled = False
        self._rates = Rates()
        self._version = version("mita")
        self.name = settings.name or f"{socket.gethostname()}-{os.getpid()}"
        self.id = incarnation(self.name)  # a restarted worker of the same name has another id

    def stop(self) -> None:
        """Stop claiming jobs, and end when the running ones have. The second call puts them back
        and leaves at once. Safe to call from a signal handler of the event loop."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    def running(self) -> list[str]:
        """Returns a text for each job that runs now. Any thread may call it."""
        return self._executor.running() if self._is_assembled else []

    def put_back(self, seconds: float) -> bool:
        """Return the running jobs to the queue, from another thread, when the event loop may be
        blocked. Waits for at most `seconds`, and returns whether the store answered in time. The
        process must end after this: the handlers still run."""
        if not self._is_assembled:
            return True
        self._executor.kill_processes()
        settlements = [*self._claim_loop.settling, *self._executor.unsettled()]
        return self._lease_keeper.settle(settlements, seconds)

    def run_sync(self) -> None:
        """`run`, from sync code. On the main thread SIGTERM and Ctrl-C stop it."""
        run_until_stopped(self.run, self.stop)

    async def run(self) -> None:
        """Run jobs until `stop` is called. Waits for a store that is unreachable."""
        async with AsyncExitStack() as stack:
            stack.enter_context(runs_jobs())
            stack.enter_context(noted(None))  # what handlers do is not what started the worker
            found = await opened(stack, self._serve, self._open_store, self._stopping, self._bus)
            if found is None:
                return
            store, emit = found
            if not await reach(partial(self._begin, store), self._stopping, "begin"):
                return
            shared = SharedValues(self._wiring)
            stack.push_async_callback(shared.close)
            if not await self._unless_stopped(shared.start()):
                return
            context = WorkerContext(
                id=self.id,
                store=store,
                tasks=self._tasks,
                settings=self._settings,
                lease=round(self._settings.lease * SECOND),
                retention=self._retention,
                clock=self._clock,
                emit=emit,
                shared=shared,
            )
            self._assemble(context)
            stack.push_async_callback(
                within, LAST_COUNT_S, "count the last runs", self._history.close
            )
            stack.push_async_callback(self._executor.close)
            # handler processes import the app, which may take long
            if not await self._unless_stopped(self._executor.prepare()):
                return
            self._lease_keeper.start()
            stack.push_async_callback(self._lease_keeper.stop)
            await self._work(context)

    async def _begin(self, store: Store) -> bool:
        """Read the store's clock and store the repeats that the app declares."""
        self._started = await store.now()
        if self._declare_repeats is not None:
            await self._declare_repeats()
        return True

    def _assemble(self, context: WorkerContext) -> None:
        store, settings = context.store, context.settings
        lock = settings.schedule_lock
        self._scheduler = Scheduler(
            store, settings.poll, lock, self.id, context.emit, context.retention.failed
        )
        self._tally, self._history = context.tally, HistoryWriter(context.tally, store)
        self._executor = Executor(context, self.processes)
        is_over = partial(self._is_over, context) if settings.until_empty else None
        self._claim_loop = ClaimLoop(context, self._executor, is_over)
        self._lease_keeper = LeaseKeeper(
            self._open_store,
            self._executor,
            context.lease,
            self._clock,
            self._describe,
            context.retention,
        )
        self._is_assembled = True

    async def _unless_stopped(self, preparation: Coroutine[Any, Any, None]) -> bool:
        """Wait until this is done. Returns False if the worker was asked to stop before that."""
        preparing: asyncio.Future[Any] = asyncio.ensure_future(preparation)
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait([preparing, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if preparing.done():
            await preparing
            return True
        preparing.cancel()
        await asyncio.wait([preparing])
        return False

    async def _is_over(self, context: WorkerContext) -> bool:
        """Whether a worker with `until_empty` has nothing left to do. Repeats that are due are
        fired first, because their jobs are due now; rows of the outbox are jobs, too. Returns False
        if the store is unreachable."""
        store, fires = context.store, context.settings.schedule
        try:
            if self._outbox is not None and (await self._outbox.view()).rows:
                return False
            keep = context.retention.failed
            fired, again = await fire_due(store, context.emit, keep) if fires else (0, None)
            return not fired and again != 0 and await is_empty(store, self._claim_loop.serves)
        except StoreError as error:
            log.warning("cannot determine whether a job is left: %s", error)
            return False

    async def _work(self, context: WorkerContext) -> None:
        queues = ", ".join(self._settings.queues or ()) or "all queues"
        log.debug("worker %s (%s) serves %s", self.name, self.id, queues)
        claiming = asyncio.create_task(self._claim_loop.run())
        helpers: list[asyncio.Future[Any]] = [self._lease_keeper.over]
        helpers += [asyncio.create_task(part) for part in self._helpers(context)]
        try:
            stopping = asyncio.create_task(self._stopping.wait())
            await asyncio.wait({claiming, stopping, *helpers}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            await self._drain(claiming)
            most = self._settings.max_jobs
            self.max_jobs_reached = most is not None and self._executor.started >= most
        finally:
            for helper in helpers:
                helper.cancel()
            results = await asyncio.gather(*helpers, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result
        if left := self._executor.on_threads():
            text = (
                "worker %s has ended; these jobs still run, were returned to the queue, cannot be "
                "stopped, and end with this process: %s"
            )
            log.warning(text, self.name, "; ".join(left))
        else:
            log.info("worker %s has ended", self.name)

    def _helpers(self, context: WorkerContext) -> list[Coroutine[Any, Any, None]]:
        """What runs beside the claim loop until the worker stops."""
        on_topic = {ASKED: self._lease_keeper.beat_now, REPEATS: self._scheduler.look_now}
        helpers = [self._claim_loop.listen(on_topic), Sweeper(context, self._keep_most).run()]
        helpers.append(self._history.run())
        if self._settings.schedule:
            helpers.append(self._scheduler.run())
        if self._outbox is not None:
            helpers.append(self._outbox.relay(context.store, self.id))
        return helpers

    async def _drain(self, claiming: asyncio.Task[None]) -> None:
        """Start nothing more, let running jobs end within the grace time, and return the rest to
        the queue."""
        executor = self._executor
        self._claim_loop.leaving = True
        executor.leave()
        executor.changed.set()
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait(
            [claiming, hurry], timeout=self._settings.grace, return_when=asyncio.FIRST_COMPLETED
        )
        hurry.cancel()
        if not claiming.done():
            executor.interrupt()
            executor.changed.set()
            await asyncio.wait([claiming], timeout=CANCEL_GRACE_S)
        if not claiming.done():
            executor.abandon()
            executor.changed.set()
            # if the store is unreachable, the jobs come back when their leases end
            await asyncio.wait([claiming], timeout=LAST_SETTLE_S)
        if claiming.done():
            claiming.result()
        else:
            claiming.cancel()

    def _describe(self) -> WorkerView:
        """Returns what `mita workers` shows. The lease keeper's thread calls it, so it only
        reads."""
        rates, window = self._rates.measure(self._tally.ended)
        return WorkerView(
            id=self.id,
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=tuple(self._claim_loop.queues),
            tasks=tuple(sorted(name for name in self._tasks if name != BULK_TASK)),
            slots=self._settings.concurrency,
            running=len(self._executor.held),
            full=jobs_to_claim(self._executor.load(0.0)) == 0,
            rate=round(sum(rates.values()), 2),
            rates=rates,
            window=window,
            started=self._started,
            offset=self._clock.offset,
            version=self._version,
        )
