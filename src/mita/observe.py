"""The methods of an app that report what happens: events, listeners and metrics."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from mita.client import Client, Events, SyncEvents
from mita.errors import UsageError
from mita.events import Counters, EventBus, ListenerThread
from mita.events.listener import Listener
from mita.rules.names import check_kinds, check_name
from mita.settings import Address
from mita.store_pool import StorePool
from mita.sync import Portal

if TYPE_CHECKING:  # imported when it is used; metrics are an extra
    from prometheus_client import CollectorRegistry

    from mita.engine.pulse import Pulse
    from mita.engine.startup import Serve
    from mita.metrics import Source


log = logging.getLogger("mita.worker")


class Observable(Client):
    """A client that also reports what happens to jobs."""

    _watch: EventBus
    _pool: StorePool
    _portal: Portal

    def __init__(self, *client: Any) -> None:
        super().__init__(*client)
        self._events: WeakSet[Events] = WeakSet()
        self._source: Source | None = None
        self._registries: list[Any] = []  # the Prometheus registries that have our metrics

    def listen(self, listener: Listener, kinds: Iterable[str] | None = None) -> ListenerThread:
        """Call `listener` with lists of the `JobEvent`s of this process: of this app's workers,
        schedulers and calls. It runs on a thread of its own until you call `.stop()` of the
        returned object. If it raises, that is logged; if it is too slow, events are dropped
        (`.dropped` counts them). Jobs are never affected. `kinds`: only events of these kinds.
        Raises `UsageError` if `listener` is no function."""
        if not callable(listener):
            raise UsageError(f"listen({listener!r}): give a function that takes a list of events")
        return self._watch.listen(listener, check_kinds(kinds))

    def events(self, queue: str | None = None, kinds: Iterable[str] | None = None) -> Events:
        """Subscribe to the events of a `queue` (None: of all queues) in all processes, from now on:
        `async for event in app.events(): …`. A reader that is too slow loses the oldest events and
        gets a `missed` event. `kinds`: only events of these kinds. Raises `UsageError` for an
        unknown kind."""
        events = Events(
            self._pool.new,
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
        """Count the events of this process from now on, and add the metrics to a Prometheus
        `registry` (None: the default one). A worker with a `metrics` address does this itself. If
        several apps use one registry, it shows their sums. Needs the extra `metrics`. Raises
        `UsageError` for something that is no registry."""
        source = self._counted()
        from prometheus_client import REGISTRY

        from mita.metrics import join

        chosen = REGISTRY if registry is None else registry
        if not hasattr(chosen, "register"):
            raise UsageError(
                f"metrics({registry!r}): give a CollectorRegistry, or nothing for the default one"
            )
        if chosen not in self._registries:
            join(chosen, source)
            self._registries.append(chosen)

    def _served(self, metrics: str | None, health: str | None = None) -> "Serve":
        """What a worker serves while it runs, at these addresses."""
        page: Serve = nullcontext
        if metrics is not None:
            where, source = Address.parse(metrics), self._counted()
            from mita.metrics import serving

            page = partial(serving, where, source)
        if health is None:
            return page
        return partial(_both, partial(_serving_health, Address.parse(health)), page)

    def _counted(self) -> "Source":
        """Return the counters of this app. They are made, and start to count, at the first call."""
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
                Depths(self._pool.identity, self._store, self._portal, self._outbox),
                self._watch.dropped,
            )
        return self._source


@contextmanager
def _serving_health(address: Address, pulse: "Pulse") -> Iterator[None]:
    from mita.probes import serving_probes

    with serving_probes(address, pulse) as served:
        log.info("health is served at http://%s/live and /ready", served)
        yield


@contextmanager
def _both(first: "Serve", second: "Serve", pulse: "Pulse") -> Iterator[None]:
    with first(pulse), second(pulse):
        yield
