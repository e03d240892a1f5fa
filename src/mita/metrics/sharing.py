"""One registry for all apps and workers of a process: each metric is there once, with the sum of
their numbers, because Prometheus rejects a page with the same line twice."""

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import asdict
from prometheus_client.registry import CollectorRegistry

from mita import forks
from mita.events.counters import Counters
from mita.model.gate import StoredLimit
from mita.model.outbox import OutboxView
from mita.model.record import DisplayState
from mita.model.view import QueueView

from .collector import Collector
from .depths import Depth, Depths


class Source(Struct, frozen=True, eq=False):
    """What one app provides: its counters, the depths of its queues, and how many events its
    listeners lost."""

    tally: Counters
    depths: Depths
    dropped: Callable[[], int]


class _Shared:
    """The sources of one registry. A source that joined twice is read once, and stays until it has
    left twice."""

    def __init__(self) -> None:
        self.sources: tuple[Source, ...] = ()

    def tally(self) -> Counters:
        """Returns the sum of all counters."""
        total = Counters()
        for source in set(self.sources):
            source.tally.add_to(total)
        return total

    def dropped(self) -> int:
        """Returns how many events all listeners lost."""
        return sum(source.dropped() for source in set(self.sources))

    def depth(self) -> Depth | None:
        """Returns the depths of all stores. Apps of one store see the same queues, so only one of
        them is asked: one that has an outbox, if there is any."""
        ordered = sorted([source.depths for source in self.sources], key=lambda one: one.has_outbox)
        stores = {depths.identity: depths for depths in ordered}
        return together(
            [known for depths in stores.values() if (known := depths.look()) is not None]
        )


def together(depths: list[Depth]) -> Depth | None:
    """Returns the sum of several stores: queues of the same name count as one. None if no store
    answers."""
    queues: dict[str, QueueView] = {}
    for view in (view for depth in depths for view in depth.queues):
        queues[view.name] = _added(queues[view.name], view) if view.name in queues else view
    if not depths:
        return None
    rows = _rows_together([depth.outbox for depth in depths if depth.outbox is not None])
    return Depth([*queues.values()], sum(depth.workers for depth in depths), rows)


def _rows_together(views: list[OutboxView]) -> OutboxView | None:
    if not views:
        return None
    return OutboxView(
        sum(view.rows for view in views),
        max(view.oldest for view in views),
        sum(view.parked for view in views),
    )


def _added(one: QueueView, other: QueueView) -> QueueView:
    counts = {state.value: getattr(one, state) + getattr(other, state) for state in DisplayState}
    ages = [age for age in (one.oldest, other.oldest) if age is not None]
    caps = [None if view.limit is None else view.limit.concurrency for view in (one, other)]
    added = {
        "oldest": max(ages, default=None),
        "counted": max((age for age in (one.counted, other.counted) if age), default=None),
        "limit": None if (cap := _sum(caps)) is None else StoredLimit(cap),
        "tokens": _sum([one.tokens, other.tokens]),
    }
    return QueueView(**{**asdict(one), **counts, **added})


def _sum(numbers: list[int | None]) -> int | None:
    """The sum; None, which is no limit, if one of the numbers is None."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


# ---------------------------------------------------------------- who is in which registry

_changing = forks.guarded(threading.Lock())
_shared: WeakKeyDictionary[CollectorRegistry, tuple[_Shared, Collector]] = WeakKeyDictionary()


def join(registry: CollectorRegistry, source: Source) -> None:
    """Add the counts of an app to the metrics of this registry."""
    with _changing:
        if registry not in _shared:
            shared = _Shared()
            collector = Collector(shared.tally, shared.depth, shared.dropped)
            registry.register(collector)
            _shared[registry] = shared, collector
        shared, _ = _shared[registry]
        shared.sources += (source,)


def leave(registry: CollectorRegistry, source: Source) -> None:
    """Remove the counts of an app from the metrics of this registry."""
    with _changing:
        shared, collector = _shared[registry]
        shared.sources = _without(shared.sources, source)
        if not shared.sources:
            del _shared[registry]
            with suppress(KeyError):  # the program has removed it
                registry.unregister(collector)


def _without(sources: Iterable[Source], one: Source) -> tuple[Source, ...]:
    left = list(sources)
    left.remove(one)
    return tuple(left)
