"""The app: tasks, a store for their jobs, workers that run them. No other module imports both the
engine and the stores."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from functools import partial
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from mita.client import JobSender
from mita.errors import UsageError
from mita.events import ClientEvents, EventBus
from mita.model.policy import Retry
from mita.observe import Observable
from mita.ports.clock import Clock
from mita.ports.logs import make_logs_printable
from mita.ports.outbox import JobOutbox, checked_outbox, needed_outbox
from mita.ports.store import Store, StoreFactory
from mita.project import APP_SETTINGS, settings
from mita.rules.judge import Retention
from mita.rules.own_tasks import BULK_TASK
from mita.sealing import Keyring, sealed_outbox
from mita.settings import AppChoices, AppSettings, SchedulerSettings, StoreURL, WorkerSettings
from mita.store_pool import StorePool, shown_factory, store_source
from mita.sync import Portal
from mita.tasks import Composed, Declare, Options, Registry, Task
from mita.tasks.calls import unknown_task

if TYPE_CHECKING:  # a program that only enqueues jobs does not load the engine
    from mita.engine.relay_process import StandaloneRelay
    from mita.engine.scheduler_process import StandaloneScheduler
    from mita.engine.worker import Worker

make_logs_printable()

# a store looks for a dead connection this often in the time of one lease
LEASE_SILENCES = 6


class Mita(Observable, Composed):
    """A durable job queue.

        app = Mita("sqlite:///jobs.db")

        @app.task
        async def greet(name: str) -> str:
            return f"hello {name}"

        job = await greet.enqueue("Ada")

    `url` says where the jobs are stored; without it, `$MITA_URL` does, or else `[tool.mita]` in
    pyproject.toml, or else it is `sqlite:///mita.db`. Instead of a URL, `store` takes a factory for
    a store of your own. Apps with different `namespace`s do not share jobs. Nothing is opened until
    it is used.

    Succeeded jobs are kept for `keep` (seconds or a timedelta; 0 deletes them at once) but at most
    `keep_most` per queue, failed and cancelled jobs for `keep_failed`. The arguments of a job may
    have up to `payload_limit` bytes. `retry` is for all tasks that do not say otherwise. A ready
    job rises by one priority for each `ageing` (seconds) that it waits; None makes priorities
    strict. `outbox` (of `mita.contrib.outbox`) takes the jobs of `task.using(connection)` if the
    store cannot be part of your transactions. A `keyring` encrypts what your jobs carry.

    The `_sync` methods are for code that is not async. Raises `UsageError` for settings that make
    no sense; methods that use the store raise `StoreError` if that fails."""

    def __init__(
        self,
        url: str | None = None,
        *,
        store: StoreFactory | None = None,
        namespace: str | None = None,
        keep: float | timedelta = 3600,
        keep_failed: float | timedelta = timedelta(days=30),
        keep_most: int = 10_000,
        payload_limit: int = 256 * 1024,
        retry: Retry = Retry(),  # noqa: B008  (frozen)
        ageing: float | timedelta | None = 60,
        outbox: JobOutbox | None = None,
        keyring: Keyring | None = None,
    ) -> None:
        self._keyring = keyring
        self._settings = AppSettings.of(
            keep=keep,
            keep_failed=keep_failed,
            keep_most=keep_most,
            payload_limit=payload_limit,
            retry=retry,
            ageing=ageing,
        )
        self._watch = EventBus()
        self._pool = StorePool(
            store_source(url, store, namespace),
            emit=self._watch.emit,
            ageing=self._settings.ageing,
            keyring=keyring,
        )
        self._portal = Portal(self._close_here)
        events = ClientEvents(self._watch)
        jobs_out = sealed_outbox(checked_outbox(outbox), keyring)
        sender = JobSender(self._pool.store, self, events, self._portal, jobs_out)
        self._registry = Registry(sender, Options.of(retry), payload_limit)
        self.tasks: Mapping[str, Task[Any, Any]] = MappingProxyType(self._registry.tasks)
        """The tasks of this app by their names, read-only."""
        self._known = MappingProxyType(self._registry.known)  # also by their aliases
        self.task = Declare(self._registry, {})
        """The decorator that makes a task of a function: `@app.task`, or `@app.task(queue="mail")`
        with the options of `TaskOptions`."""
        kept = Retention(succeeded=self._settings.keep, failed=self._settings.keep_failed)
        super().__init__(sender, self._known, kept, self._portal, events)
        self._registry.known[BULK_TASK] = self._bulk_task

    @classmethod
    def from_settings(cls, **given: Unpack[AppChoices]) -> Self:
        """Make an app from `$MITA_URL`, `$MITA_KEEP` and so on, and from `[tool.mita]` in
        pyproject.toml: url, namespace, keep, keep_failed, keep_most, payload_limit and ageing. What
        is `given` here wins, then the environment. Raises `UsageError` for settings that make no
        sense."""
        found = {name: one.value for name, one in settings().items() if name in APP_SETTINGS}
        return cls(**{**found, **given})

    @property
    def kept(self) -> Retention:
        """How long terminal jobs are kept."""
        return self._keep

    @property
    def url(self) -> StoreURL:
        """Where the jobs are stored. Raises `UsageError` for an app that was given `store=`."""
        return self._pool.url

    @property
    def store_factory(self) -> StoreFactory | None:
        """What the app was given as `store=`; None for an app with a URL."""
        source = self._pool.source
        return None if isinstance(source, StoreURL) else source

    def find_task(self, name: str) -> Task[Any, Any]:
        """Return the task of this `name` or alias. Raises `UsageError` if there is none."""
        try:
            return self._known[name]
        except KeyError:
            raise UsageError(unknown_task(name, self.tasks)) from None

    def worker(
        self,
        queues: Sequence[str] | None = None,
        *,
        concurrency: int = 100,
        lease: float = 30,
        grace: float = 20,
        threads: int = 16,
        name: str = "",
        schedule: bool = True,
        schedule_lock: float = 3.0,
        poll: float = 1.0,
        metrics: str | None = None,
        health: str | None = None,
        handler_processes: int | None = None,
        target: str | None = None,
        exclude: Sequence[str] = (),
        until_empty: bool = False,
        max_jobs: int | None = None,
        verbose: bool = False,
    ) -> "Worker":
        """Return a worker. `await worker.run()` runs jobs until `worker.stop()`, until no job is
        ready or running (`until_empty`), or until it has run `max_jobs` jobs.

        It serves these `queues` (None: all queues except those in `exclude`), runs up to
        `concurrency` handlers at once, and sync handlers on `threads`. Tasks with
        `executor="process"` run in at most `handler_processes` processes (None: one for each
        processor), which import this app as `target`, "module:app" (None: find it).

        A claim is valid for `lease` seconds without a heartbeat. A worker that stops waits up to
        `grace` seconds for its handlers. `schedule=False`: it does not fire repeats;
        `schedule_lock` is for how many seconds one of many workers holds the lock for that. It
        looks for new jobs every `poll` seconds if the store cannot wake it.

        `name` is shown to people. `metrics` is an address, for example `127.0.0.1:9000`, at which
        Prometheus can read the metrics while the worker runs, and a process manager `/live` and
        `/ready`. `health` is an address for these two alone, without the extra `metrics`. Failures
        are logged with their traceback; with `verbose`, successes are logged with their duration.
        Raises `UsageError` for settings that make no sense."""
        from mita.engine.importing import plan_processes
        from mita.engine.worker import Worker

        for named, given in (("queues", queues), ("exclude", exclude)):
            if isinstance(given, str):
                raise UsageError(f"{named}={given!r}: give a list, [{given!r}]")
        settings = WorkerSettings(
            queues=None if queues is None else tuple(queues),
            concurrency=concurrency,
            lease=lease,
            grace=grace,
            threads=threads,
            name=name,
            schedule=schedule,
            schedule_lock=schedule_lock,
            poll=poll,
            handler_processes=handler_processes,
            target=target,
            exclude=tuple(exclude),
            until_empty=until_empty,
            max_jobs=max_jobs,
            verbose=verbose,
        )
        self._registry.check()
        return Worker(
            partial(self._pool.new, settings.lease / LEASE_SILENCES),
            self._known,
            self._registry.wiring,
            settings,
            self._keep,
            self._settings.keep_most,
            self._watch,
            self.repeats.put_declared,
            self._served(metrics, health),
            plan_processes(self, self.tasks, settings, self._pool.source),
            self._outbox,
        )

    def scheduler(
        self,
        *,
        lock: float = 3.0,
        poll: float = 1.0,
        name: str = "",
        metrics: str | None = None,
        health: str | None = None,
    ) -> "StandaloneScheduler":
        """Return a standalone scheduler, which fires repeats and runs no jobs: `await
        scheduler.run()` until `scheduler.stop()`. One of many schedulers holds the `lock` for so
        many seconds; `poll`, `name`, `metrics` and `health` are as for a worker. Raises
        `UsageError` for settings that make no sense."""
        from mita.engine.scheduler_process import StandaloneScheduler

        settings = SchedulerSettings(lock=lock, poll=poll, name=name)
        return StandaloneScheduler(
            self._pool.new,
            settings,
            self.repeats.put_declared,
            self._watch,
            self._served(metrics, health),
            self._keep.failed,
        )

    def relay(self, *, name: str = "", metrics: str | None = None) -> "StandaloneRelay":
        """Return a standalone relay, which sends the rows of the outbox to the store and runs no
        jobs: `await relay.run()` until `relay.stop()`. Every worker relays, too. `name` and
        `metrics` are as for a worker. Raises `UsageError` if the app has no outbox."""
        from mita.engine.relay_process import StandaloneRelay

        served = self._served(metrics)
        return StandaloneRelay(self._pool.new, self.outbox, self._watch, served, name)

    @property
    def has_outbox(self) -> bool:
        """Whether the app has an outbox."""
        return self._outbox is not None

    @property
    def outbox(self) -> JobOutbox:
        """The outbox of the app. Raises `UsageError` if it has none."""
        return needed_outbox(self._outbox)

    # ------------------------------------------------------------ stores

    async def open_store(self) -> Store:
        """Open one more store on this app's jobs, for tools. The caller closes it."""
        return await self._pool.new()

    @asynccontextmanager
    async def using(
        self,
        url: str | None = None,
        *,
        store: StoreFactory | None = None,
        namespace: str | None = None,
        clock: Clock | None = None,
        create: bool = True,
    ) -> AsyncIterator[Self]:
        """Use the same tasks on another store until the end of the block: `async with
        app.using("memory://"): …`. Give a `url` or a `store` factory, and a `namespace`, as to
        `Mita`. A `clock` replaces the store's clock, for tests. `create=False`: never create the
        database; the first use raises `StoreMissing` if there is none. Raises `UsageError` for a
        URL that makes no sense."""
        before, other = self._pool, self._other_pool(url, store, namespace, clock, create)
        self._use(other)
        try:
            yield self
        finally:
            self._use(before)
            await self._close_pool(other)

    @contextmanager
    def using_sync(
        self,
        url: str | None = None,
        *,
        store: StoreFactory | None = None,
        namespace: str | None = None,
        clock: Clock | None = None,
        create: bool = True,
    ) -> Iterator[Self]:
        """`using`, for sync code: `with app.using_sync("memory://"): …`."""
        before, other = self._pool, self._other_pool(url, store, namespace, clock, create)
        self._use(other)
        try:
            yield self
        finally:
            self._use(before)
            if self._portal.open:
                self._portal(self._close_pool_here(other))

    def _use(self, pool: StorePool) -> None:
        self._pool, self._sender.open_store = pool, pool.store

    def _other_pool(
        self,
        url: str | None,
        store: StoreFactory | None,
        namespace: str | None,
        clock: Clock | None,
        create: bool,
    ) -> StorePool:
        if store is not None and clock is not None:
            raise UsageError("store= and clock=: give the clock to your own store instead")
        source = store_source(url, store, namespace)
        return StorePool(
            source,
            clock,
            self._watch.emit,
            create=create,
            ageing=self._settings.ageing,
            keyring=self._keyring,
        )

    async def close(self) -> None:
        """Close the stores of the running event loop and of the `_sync` methods. The next use opens
        them again."""
        for events in list(self._events):
            if events.loop is asyncio.get_running_loop():
                await events.aclose()
        await self._close_here()
        if self._portal.open:
            await asyncio.to_thread(self._portal.close)

    def close_sync(self) -> None:
        """`close`, from code that is not async: closes the store of the `_sync` methods."""
        self._portal.close()

    async def __aenter__(self) -> Self:
        await self._store()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _close_here(self) -> None:
        await self._reports.close()
        await self._pool.close()

    async def _close_pool_here(self, pool: StorePool) -> None:
        """Close the store that the running event loop has of this pool."""
        await self._reports.close()
        await pool.close()

    async def _close_pool(self, pool: StorePool) -> None:
        """Close the stores of this pool: that of the running event loop, and that of the `_sync`
        methods."""
        await self._close_pool_here(pool)
        if self._portal.open:
            await asyncio.to_thread(self._portal, pool.close())

    def __repr__(self) -> str:
        source = self._pool.source
        where = repr(source) if isinstance(source, StoreURL) else shown_factory(source)
        return f"<Mita {where}, {len(self.tasks)} tasks>"
