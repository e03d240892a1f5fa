"""Hands events to a listener: on its own thread and through a bounded queue, so that a listener
cannot slow down jobs."""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from mita import forks
from mita.model.event import EventBatch, JobEvent, Kind

from .batches import batches_of
from .signals import Signal

log = logging.getLogger("mita.events")

Listener: TypeAlias = Callable[[list[JobEvent]], object]
"""A function that `app.listen` calls with the events of this process."""
MOST_WAITING_EVENTS = 10_000  # for one listener
WAKE_EVENTS = 2_000  # so many wake its thread from its pause
# in one call, about: few enough to stay in the processor's cache
BATCH_EVENTS = 500
# after each delivery: waking the thread costs the jobs time
GATHER_S = 0.02
COMPLAIN_EVERY_S = 60.0
STOP_TIMEOUT_S = 2.0  # for the last events when a listener stops


class ListenerThread:
    """Calls one listener. `dropped` counts the events that it was too slow for, and `failed` the
    calls that raised. After a loss the listener gets a `missed` event with the number of lost
    events."""

    def __init__(
        self, listener: Listener, kinds: frozenset[Kind], end: Callable[["ListenerThread"], None]
    ) -> None:
        self._listener, self._kinds, self._end = listener, kinds, end
        self.dropped = 0
        self.failed = 0
        self._complained = 0.0
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._waiting_batches: deque[EventBatch] = deque()
        self._waiting = 0
        self._lost = 0
        self._over = self._idle = False
        self._changed = threading.Condition(forks.guarded(threading.Lock()))
        self._thread = threading.Thread(target=self._serve, name="mita-listener", daemon=True)
        self._thread.start()

    def put(self, signal: Signal) -> None:
        """Queue the events of a `signal`, on the engine's event loop. If the queue is full they are
        dropped, so that the older ones stay in order."""
        if not (
            made := [
                only
                for batch in batches_of(signal)
                if (only := batch.only(self._kinds)) is not None
            ]
        ):
            return
        count = sum(batch.size for batch in made)
        if self._pid != os.getpid():  # threads do not survive a fork
            self._begin()
        with self._changed:
            if self._waiting + count > MOST_WAITING_EVENTS and self._waiting:
                self.dropped += count
                self._lost += count
                return
            self._waiting_batches += made
            self._waiting += count
            if self._idle or self._waiting >= WAKE_EVENTS:
                self._changed.notify()

    def stop(self) -> None:
        """Stop calling the listener. Events that are queued are still delivered, unless the
        listener hangs."""
        self._end(self)
        with self._changed:
            self._over = True
            self._changed.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(STOP_TIMEOUT_S)

    def _serve(self) -> None:
        while (batches := self._next()) is not None:
            for batch in _batches(batches):
                self._deliver(batch)
            with self._changed:
                self._changed.wait_for(lambda: self._over or self._waiting >= WAKE_EVENTS, GATHER_S)

    def _deliver(self, batch: list[JobEvent]) -> None:
        try:
            self._listener(batch)
        except Exception:  # noqa: BLE001 - whatever is wrong with it, it is not the job's fault
            self.failed += 1
            self._complain()

    def _next(self) -> Iterable[EventBatch] | None:
        with self._changed:
            self._idle = True
            self._changed.wait_for(lambda: self._over or self._waiting_batches)
            self._idle = False
            if not self._waiting_batches:
                return None
            batches, self._waiting_batches, self._waiting = self._waiting_batches, deque(), 0
            lost, self._lost = self._lost, 0
        if lost:
            batches.append(EventBatch(Kind.MISSED, ids=[""], count=lost))
        return batches

    def _complain(self) -> None:
        now = time.monotonic()
        if not self._complained or now - self._complained > COMPLAIN_EVERY_S:
            self._complained = now
            log.exception(
                "the listener %r raised an error; it stays subscribed, and jobs are not affected",
                self._listener,
            )


def _batches(batches: Iterable[EventBatch]) -> Iterator[list[JobEvent]]:
    batch: list[JobEvent] = []
    for part in (small for big in batches for small in big.parts(BATCH_EVENTS)):
        batch += part.events()
        if len(batch) >= BATCH_EVENTS:
            yield batch
            batch = []
    if batch:
        yield batch
