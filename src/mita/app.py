"""The app: tasks, a place for their jobs, workers to run them. The only module that has met both
engine and stores."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

from mita.client import Client, Events, SyncEvents, unknown_task
from mita.engine.importing import plan_processes
from mita.engine.scheduler_process import StandaloneScheduler
from mita.engine.startup import Serve
from mita.engine.worker import Worker
from mita.errors import UsageError
from mita.events import Counters, EventBus, ListenerThread
from mita.events.listener import Listener
from mita.model.policy import Retry
from mita.ports.clock import Clock
from mita.ports.logs import make_logs_printable
from mita.ports.store import Store, StoreFactory
from mita.rules.judge import Retention
from mita.rules.names import check_kinds, check_name
from mita.settings import Address, AppSettings, SchedulerSettings, StoreURL, WorkerSettings
from mita.store_pool import StorePool, shown_factory
from mita.stores.registry import parse_url
from mita.sync import Portal
from mita.tasks import Declare, Options, Registry, Task

if TYPE_CHECKING:  # an extra, imported when it is used
    from prometheus_client import CollectorRegistry

    from mita.metrics import Source

make_logs_printable()


# silent connections that a lease must outlast: one that is found dead is made again well before its
# end
LEASE_SILENCES = 6


class Mita(Client):
    """A durable job queue.

        app = Mita("sqlite:///jobs.db")

        @app.task
        async def greet(name: str) -> str:
            return f"hello {name}"

        job = await greet.enqueue("Ada")

    Without a URL it is `$MITA_URL`, else `sqlite:///mita.db`. Nothing is opened until it is used.
    Succeeded jobs are kept for `keep` (seconds or a timedelta; 0 forgets them at once) but at most
    `keep_most` per queue, failed and cancelled ones for `keep_failed`. The `_sync` methods are for
    code that is not async."""

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
    ) -> None:
        self._settings = AppSettings.of(
            keep=keep,
            keep_failed=keep_failed,
            keep_most=keep_most,
            payload_limit=payload_limit,
            retry=retry,
        )
        self._watch = EventBus()
        self._place = StorePool(_source(url, store, namespace), emit=self._watch.emit)
        self._portal = Portal(self._close_here)
        registry = Registry(self, Options.of(retry), payload_limit)
        self.tasks: Mapping[str, Task[Any, Any]] = MappingProxyType(registry.tasks)
        self.task = Declare(registry, {})
        kept = Retention(succeeded=self._settings.keep, failed=self._settings.keep_failed)
        super().__init__(self._store_here, self.tasks, kept, self._portal, self._watch)
        self._events: WeakSet[Events] = WeakSet()
        self._source: Source | None = None
        self._registries: list[Any] = []  # of Prometheus, that have our metrics

    @property
    def kept(self) -> Retention:
        """How long terminal jobs are kept."""
        return self._keep

    @property
    def url(self) -> StoreURL:
        """Where the jobs are stored. Raises `UsageError` for an app that was given `store=`."""
        return self._place.url

    @property
    def store_factory(self) -> StoreFactory | None:
        """What the app was given as `store=`; None for an app with a URL."""
        source = self._place.source
        return None if isinstance(source, StoreURL) else source

    def find_task(self, name: str) -> Task[Any, Any]:
        """The task of this name."""
        try:
            return self.tasks[name]
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
        handler_processes: int | None = None,
        target: str | None = None,
        exclude: Sequence[str] = (),
        until_empty: bool = False,
        max_jobs: int | None = None,
        verbose: bool = False,
    ) -> Worker:
        """A worker for these queues (None: all there are, but for those in `exclude`). `await
        worker.run()` until `worker.stop()`, until nothing is left to do now (`until_empty`), or
        until it has run `max_jobs` jobs. Failures are logged with their traceback; `verbose` logs
        successes too, with their duration.

        Tasks with `executor="process"` run in at most `handler_processes` processes (None: as many
        as there are processors), which import this app by its name, `target="module:app"` (None: it
        is looked for).

        `metrics` is an address (`127.0.0.1:9000`) at which Prometheus can read what it counts,
        while it runs."""
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
        for task in self.tasks.values():
            task.arguments.prepare()
        return Worker(
            partial(self._place.new, settings.lease / LEASE_SILENCES),
            self.tasks,
            settings,
            self._keep,
            self._settings.keep_most,
            self._watch.emit,
            self.repeats.put_declared,
            self._served(metrics),
            plan_processes(self, self.tasks, settings, self._place.source),
        )

    def scheduler(
        self, *, lock: float = 3.0, poll: float = 1.0, name: str = "", metrics: str | None = None
    ) -> StandaloneScheduler:
        """What fires repeats in every worker, without a worker: `await scheduler.run()` until
        `scheduler.stop()`. `metrics` is as for a worker."""
        settings = SchedulerSettings(lock=lock, poll=poll, name=name)
        return StandaloneScheduler(
            self._place.new,
            settings,
            self.repeats.put_declared,
            self._watch.emit,
            self._served(metrics),
        )

    # ------------------------------------------------------------ watching

    def listen(self, listener: Listener, kinds: Iterable[str] | None = None) -> ListenerThread:
        """Hand what happens here (in this app's workers, schedulers and calls of this process) to
        `listener`, as lists of `JobEvent`s, on a thread of its own, until `.stop()` of what this
        gives. One that raises is logged, one that is too slow loses events (`.dropped` says how
        many); neither ever hurts a job. `kinds`: of these alone."""
        if not callable(listener):
            raise UsageError(f"listen({listener!r}): give a function that takes a list of events")
        return self._watch.listen(listener, check_kinds(kinds))

    def events(self, queue: str | None = None, kinds: Iterable[str] | None = None) -> Events:
        """What happens to the jobs of a queue (None: of all), in whatever process, from now on:
        `async for event in app.events(): …`. Whoever reads too slowly loses the oldest, and gets a
        `missed` event. `kinds`: of these alone."""
        events = Events(
            self._place.new,
            None if queue is None else check_name("queue", queue),
            check_kinds(kinds),
        )
        self._events.add(events)
        return events

    def events_sync(
        self, queue: str | None = None, kinds: Iterable[str] | None = None
    ) -> SyncEvents:
        """`events`, from code that is not async: `for event in app.events_sync(): …`."""
        return SyncEvents(self.events(queue, kinds), self._run_sync)

    def metrics(self, registry: "CollectorRegistry | None" = None) -> None:
        """Count what happens in this process from now on, for a Prometheus registry of yours (None:
        the usual one). A worker that is given an address does this by itself. Several apps may use
        one registry: it shows their sums. Needs the extra `metrics`."""
        source = self._counted()
        from prometheus_client import REGISTRY

        from mita.metrics import join

        chosen = REGISTRY if registry is None else registry
        if not hasattr(chosen, "register"):
            raise UsageError(
                f"metrics({registry!r}): give a CollectorRegistry, or nothing for the usual one"
            )
        if chosen not in self._registries:
            join(chosen, source)
            self._registries.append(chosen)

    def _served(self, address: str | None) -> Serve:
        if address is None:
            return nullcontext
        where, source = Address.parse(address), self._counted()
        from mita.metrics import serving

        return lambda: serving(where, source)

    def _counted(self) -> "Source":
        """What this app counts, from the first time on that somebody wants to know."""
        try:
            from mita.metrics import Depths, Source
        except ModuleNotFoundError as error:
            raise UsageError(
                f"metrics need a package that is not installed ({error}): pip install "
                "'mita[metrics]'"
            ) from error
        if self._source is None:
            tally = Counters()
            self._watch.add(tally)
            self._source = Source(
                tally,
                Depths(self._place.identity, self._store_here, self._portal),
                self._watch.dropped,
            )
        return self._source

    # ------------------------------------------------------------ places

    async def open_store(self) -> Store:
        """A store of one's own at this app's place, for tools; its caller closes it."""
        return await self._place.new()

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
        app.using("memory://"): …`. Give a URL or a `store` factory, as to `Mita`. A `clock`
        replaces the store's clock, for tests. `create=False`: never create the database; the first
        use raises `StoreMissing` if there is none."""
        before = self._place
        self._place = self._other_pool(url, store, namespace, clock, create)
        try:
            yield self
        finally:
            other, self._place = self._place, before
            await self._leave(other)

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
        """`using`, from code that is not async: `with app.using_sync("memory://"): …`."""
        before = self._place
        self._place = self._other_pool(url, store, namespace, clock, create)
        try:
            yield self
        finally:
            other, self._place = self._place, before
            if self._portal.open:
                self._portal(self._leave_here(other))

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
        source = _source(url, store, namespace)
        return StorePool(source, clock, self._watch.emit, create=create)

    async def close(self) -> None:
        """Close what was opened for the running loop and for the `_sync` methods. The next use
        opens it again."""
        for events in list(self._events):
            if events.loop is asyncio.get_running_loop():
                await events.aclose()
        await self._close_here()
        if self._portal.open:
            await asyncio.to_thread(self._portal.close)

    def close_sync(self) -> None:
        """`close`, from code that is not async: it closes what the `_sync` methods opened."""
        self._portal.close()

    async def __aenter__(self) -> Self:
        await self._store_here()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _store_here(self) -> Coroutine[Any, Any, Store]:
        return self._place.store()

    async def _close_here(self) -> None:
        await self._reports.close()
        await self._place.close()

    async def _leave_here(self, place: StorePool) -> None:
        """Close what the running loop opened there."""
        await self._reports.close()
        await place.close()

    async def _leave(self, place: StorePool) -> None:
        await self._leave_here(place)
        if self._portal.open:
            await asyncio.to_thread(self._portal, place.close())

    def __repr__(self) -> str:
        source = self._place.source
        where = repr(source) if isinstance(source, StoreURL) else shown_factory(source)
        return f"<Mita {where}, {len(self.tasks)} tasks>"


def _source(
    url: str | None, store: StoreFactory | None, namespace: str | None
) -> StoreURL | StoreFactory:
    """What the user gave of the two."""
    if store is None:
        return parse_url(url, namespace)
    if url is not None or namespace is not None:
        raise UsageError("store= replaces the URL and the namespace: leave those out")
    if not callable(store):
        raise UsageError(
            f"store={store!r}: give a function that makes a store, for example "
            "store=lambda: MyStore(path)"
        )
    return store
