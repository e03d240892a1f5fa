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
from mita.events import Emit
from mita.model.time import SECOND, Moment
from mita.model.view import WorkerView
from mita.ports.clock import wall_clock
from mita.ports.ids import incarnation
from mita.ports.store import Store
from mita.rules.claim_size import room
from mita.rules.judge import Retention
from mita.settings import WorkerSettings
from mita.sync import runs_jobs
from mita.tasks import Task

from .backoff import reach
from .blocking import run_until_stopped
from .claim_loop import ClaimLoop
from .emptiness import is_empty
from .executor import Executor
from .lease_keeper import LeaseKeeper
from .processes import ProcessPlan
from .rates import Rates
from .scheduler import Scheduler, fire_due
from .startup import Serve, opened
from .sweeper import Sweeper

log = logging.getLogger("mita.worker")

LONGEST_SWEEP = 5.0
LAST_SETTLE = 2.0  # seconds for the store to take back what did not end
COURTESY = 2.0  # seconds that a handler has for tidying up when it is cancelled


class Worker:
    """`run` until `stop`: the first call drains within the grace time, a second one leaves at
    once."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        tasks: Mapping[str, Task[Any, Any]],
        settings: WorkerSettings,
        keep: Retention,
        most: int,
        emit: Emit,
        repeats: Callable[[], Awaitable[None]] | None = None,
        serve: Serve = nullcontext,
        processes: ProcessPlan | None = None,
    ) -> None:
        self._open_store, self._tasks, self._settings, self._keep = (
            open_store,
            tasks,
            settings,
            keep,
        )
        self._most, self._emit_here, self._repeats, self._serve = most, emit, repeats, serve
        self.processes = processes
        self._lease = round(settings.lease * SECOND)
        self.spent = False  # it has run its `max_jobs`; another worker is to take its place
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._started = 0
        self._assembled = False
        self._rates = Rates()
        self._version = version("mita")
        self.name = settings.name or f"{socket.gethostname()}-{os.getpid()}"
        self.id = incarnation(self.name)  # a heartbeat never belongs to a name alone

    def stop(self) -> None:
        """Safe to call from a signal handler of the loop."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    def running(self) -> list[str]:
        """What runs now, in words. From any thread."""
        return self._crew.running() if self._assembled else []

    def put_back(self, seconds: float) -> bool:
        """From any thread but the loop's: put back what runs, without the loop, which may be
        blocked. Returns whether the store has taken it. The process is to end after this: the
        handlers still run."""
        if not self._assembled:
            return True
        self._crew.kill_processes()
        return self._keeper.settle([*self._turns.sending, *self._crew.unsettled()], seconds)

    def run_sync(self) -> None:
        """`run`, from code that is not async. On the main thread SIGTERM and Ctrl-C stop it."""
        run_until_stopped(self.run, self.stop)

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            stack.enter_context(runs_jobs())
            found = await opened(
                stack, self._serve, self._open_store, self._stopping, self._emit_here
            )
            if found is None:
                return
            store, self._emit = found
            if not await reach(partial(self._begin, store), self._stopping, "begin"):
                return
            self._assemble(store)
            stack.push_async_callback(self._crew.close)
            if not await self._prepared():
                return
            self._keeper.start()
            stack.push_async_callback(self._keeper.stop)
            await self._work(store)

    async def _begin(self, store: Store) -> bool:
        """Read the store's clock and put the repeats that the app declares."""
        self._started = await store.now()
        if self._repeats is not None:
            await self._repeats()
        return True

    def _assemble(self, store: Store) -> None:
        settings = self._settings
        self._scheduler = Scheduler(
            store, settings.poll, settings.schedule_lock, self.id, self._emit
        )
        self._turns = ClaimLoop(
            store,
            self._keep,
            settings.queues,
            self._lease,
            self.id,
            settings.poll,
            self._poke,
            self._scheduler.poke,
            self._emit,
            self._now,
            frozenset(settings.exclude),
            settings.max_jobs,
            partial(self._is_over, store) if settings.until_empty else None,
        )
        self._crew = Executor(
            self._tasks,
            store,
            self._keep,
            settings.concurrency,
            settings.threads,
            news=self._turns.news,
            processes=self.processes,
            verbose=settings.verbose,
            lease=self._lease,
        )
        self._keeper = LeaseKeeper(self._open_store, self._crew, self._lease, self._describe)
        self._assembled = True

    async def _prepared(self) -> bool:
        """False: told to stop before it was ready. A handler process may take long to import the
        app."""
        preparing: asyncio.Future[Any] = asyncio.ensure_future(self._crew.prepare())
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait([preparing, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if preparing.done():
            await preparing
            return True
        preparing.cancel()
        await asyncio.wait([preparing])
        return False

    async def _is_over(self, store: Store) -> bool:
        """Repeats that are due are fired first: their jobs are due now. A store that is away is
        asked again."""
        try:
            fired, again = (
                await fire_due(store, self._emit) if self._settings.schedule else (0, None)
            )
            return not fired and again != 0 and await is_empty(store, self._turns.serves)
        except StoreError as error:
            log.warning("cannot tell whether there is anything left to do: %s", error)
            return False

    def _poke(self) -> None:
        self._keeper.poke()

    def _now(self) -> Moment:
        """The store's clock, as well as the heartbeats know it."""
        return wall_clock() - self._keeper.offset

    async def _work(self, store: Store) -> None:
        log.debug(
            "worker %s (%s) serves %s",
            self.name,
            self.id,
            ", ".join(self._settings.queues or ()) or "all queues",
        )
        turns = asyncio.create_task(self._turns.run(self._crew))
        helpers: list[asyncio.Future[Any]] = [self._keeper.over]
        helpers += [asyncio.create_task(part) for part in self._helpers(store)]
        try:
            stopping = asyncio.create_task(self._stopping.wait())
            await asyncio.wait({turns, stopping, *helpers}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            await self._drain(turns)
            self.spent = self._turns.spent(self._crew)
        finally:
            for helper in helpers:
                helper.cancel()
            results = await asyncio.gather(*helpers, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result
        if left := self._crew.on_threads():
            text = (
                "worker %s is gone; what still runs was put back, cannot be stopped, and ends "
                "with this process: %s"
            )
            log.warning(text, self.name, "; ".join(left))
        else:
            log.info("worker %s is gone", self.name)

    def _helpers(self, store: Store) -> list[Coroutine[Any, Any, None]]:
        sweep_every = min(LONGEST_SWEEP, self._settings.lease / 2)
        helpers = [
            self._turns.listen(self._crew),
            Sweeper(
                store, self._keep, self._lease, self.id, self._most, sweep_every, self._emit
            ).run(),
        ]
        if self._settings.schedule:
            helpers.append(self._scheduler.run())
        return helpers

    async def _drain(self, turns: asyncio.Task[None]) -> None:
        """Start nothing more, let what runs come to its end within the grace time, and put the rest
        back."""
        self._turns.leaving = True
        self._crew.leave()
        self._turns.wake()
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait(
            [turns, hurry], timeout=self._settings.grace, return_when=asyncio.FIRST_COMPLETED
        )
        hurry.cancel()
        if not turns.done():
            self._crew.interrupt()
            self._turns.wake()
            await asyncio.wait([turns], timeout=COURTESY)
        if not turns.done():
            self._crew.abandon()
            self._turns.wake()
            # a store that is away gets its jobs back by the lease
            await asyncio.wait([turns], timeout=LAST_SETTLE)
        if turns.done():
            turns.result()
        else:
            turns.cancel()

    def _describe(self) -> WorkerView:
        """Called on the keeper's thread: it only reads."""
        rates, window = self._rates.measure(self._turns.ended)
        return WorkerView(
            id=self.id,
            name=self.name,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=tuple(self._turns.names),
            tasks=tuple(sorted(self._tasks)),
            slots=self._settings.concurrency,
            running=len(self._crew.held),
            full=room(self._crew.load(0.0)) == 0,
            rate=round(sum(rates.values()), 2),
            rates=rates,
            window=window,
            started=self._started,
            offset=self._keeper.offset,
            version=self._version,
        )
