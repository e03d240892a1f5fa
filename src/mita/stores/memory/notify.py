"""Waking whoever sleeps, on whatever event loop."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from threading import Lock

from mita.ports.store import ASKED, REPEATS


class Sleeper:
    """One `wait` in progress."""

    def __init__(self, queues: Collection[str] | None, loop: asyncio.AbstractEventLoop) -> None:
        self.heard: set[str] = set()
        self.awake = asyncio.Event()
        self._topics = None if queues is None else {*queues, ASKED, REPEATS}
        self._loop = loop

    def wants(self, topics: set[str]) -> set[str]:
        return set(topics) if self._topics is None else topics & self._topics

    def hear(self, topics: set[str]) -> None:
        self.heard |= topics
        with suppress(RuntimeError):  # its loop was closed under it: nobody is left to wake
            self._loop.call_soon_threadsafe(self.awake.set)


class Notifier:
    """One for each store handle. What rings while nobody sleeps is kept for the next who does.

    `ring` is called with the state's lock held, and everything here is guarded by that lock.
    """

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._missed: set[str] = set()
        self._sleepers: set[Sleeper] = set()

    def ring(self, topics: set[str]) -> None:
        ignore_signal = set(topics)
        for sleeper in self._sleepers:
            if heard := sleeper.wants(topics):
                sleeper.hear(heard)
                ignore_signal -= heard
        self._missed |= ignore_signal

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        sleeper = Sleeper(queues, asyncio.get_running_loop())
        with self._lock:
            if missed := sleeper.wants(self._missed):
                self._missed -= missed
                return frozenset(missed)
            self._sleepers.add(sleeper)
        try:
            async with asyncio.timeout(timeout):
                await sleeper.awake.wait()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            self._rise(sleeper, told=False)
            raise
        return self._rise(sleeper, told=True)

    def _rise(self, sleeper: Sleeper, *, told: bool) -> frozenset[str]:
        """What it heard, which goes to the next sleeper if this one cannot be told any more."""
        with self._lock:
            self._sleepers.discard(sleeper)
            if not told:
                self._missed |= sleeper.heard
        return frozenset(sleeper.heard)
