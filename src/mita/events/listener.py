"""Handing events to a listener: on a thread of its own, through a queue that is never long, so that
it cannot hurt a job."""

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
MOST_WAITING_EVENTS = 10_000  # events that wait for a listener
WAKE_EVENTS = 2_000  # events for which it is woken from its rest
# events in one call, about: few enough that making the next ones reuses memory that is still warm
BATCH_EVENTS = 500
# seconds in which things gather after something was delivered: a thread that is woken costs the
# jobs
GATHER_S = 0.02
COMPLAIN_EVERY_S = 60.0  # seconds
STOP_TIMEOUT_S = 2.0  # seconds that `stop` gives a listener for what it was not told yet


class ListenerThread:
    """One listener at work. `dropped` counts the events that it was too slow for, `failed` the
    batches it raised over.

    Before the first event after such a loss it is told a `missed` one, with their number.
    """

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
        self._news = threading.Condition(forks.guarded(threading.Lock()))
        self._thread = threading.Thread(target=self._serve, name="mita-listener", daemon=True)
        self._thread.start()

    def put(self, signal: Signal) -> None:
        """On the engine's loop. The newest are dropped: what waits is the oldest, and in its
        order."""
        if not (
            made := [
                only
                for batch in batches_of(signal)
                if (only := batch.only(self._kinds)) is not None
            ]
        ):
            return
        count = sum(batch.size for batch in made)
        if self._pid != os.getpid():  # threads do not come along when a process forks
            self._begin()
        with self._news:
            if self._waiting + count > MOST_WAITING_EVENTS and self._waiting:
                self.dropped += count
                self._lost += count
                return
            self._waiting_batches += made
            self._waiting += count
            if self._idle or self._waiting >= WAKE_EVENTS:
                self._news.notify()

    def stop(self) -> None:
        """Tell it no more. What is on its way is still delivered, unless it hangs."""
        self._end(self)
        with self._news:
            self._over = True
            self._news.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(STOP_TIMEOUT_S)

    def _serve(self) -> None:
        while (told := self._next()) is not None:
            for batch in _batches(told):
                self._deliver(batch)
            with self._news:
                self._news.wait_for(lambda: self._over or self._waiting >= WAKE_EVENTS, GATHER_S)

    def _deliver(self, batch: list[JobEvent]) -> None:
        try:
            self._listener(batch)
        except Exception:  # noqa: BLE001 - whatever is wrong with it, it is not the job's fault
            self.failed += 1
            self._complain()

    def _next(self) -> Iterable[EventBatch] | None:
        with self._news:
            self._idle = True
            self._news.wait_for(lambda: self._over or self._waiting_batches)
            self._idle = False
            if not self._waiting_batches:
                return None
            told, self._waiting_batches, self._waiting = self._waiting_batches, deque(), 0
            lost, self._lost = self._lost, 0
        if lost:
            told.append(EventBatch(Kind.MISSED, ids=[""], count=lost))
        return told

    def _complain(self) -> None:
        now = time.monotonic()
        if not self._complained or now - self._complained > COMPLAIN_EVERY_S:
            self._complained = now
            log.exception(
                "the listener %r raised; it goes on, and jobs are not touched by it", self._listener
            )


def _batches(told: Iterable[EventBatch]) -> Iterator[list[JobEvent]]:
    batch: list[JobEvent] = []
    for part in (small for big in told for small in big.parts(BATCH_EVENTS)):
        batch += part.events()
        if len(batch) >= BATCH_EVENTS:
            yield batch
            batch = []
    if batch:
        yield batch
