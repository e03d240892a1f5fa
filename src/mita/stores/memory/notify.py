"""Notifying the stores that wait, on any event loop."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from threading import Lock

from mita.ports.store import ASKED, REPEATS


class Waiter:
    """One `wait` in progress."""

    def __init__(self, queues: Collection[str] | None, loop: asyncio.AbstractEventLoop) -> None:
        self.received: set[str] = set()
        self.is_notified = asyncio.Event()
        self._topics = None if queues is None else {*queues, ASKED, REPEATS}
        self._loop = loop

    def wanted(self, topics: set[str]) -> set[str]:
        """Which of the topics it waits for."""
        return set(topics) if self._topics is None else topics & self._topics

    def notify(self, topics: set[str]) -> None:
        """End the wait."""
        self.received |= topics
        with suppress(RuntimeError):  # its event loop was closed, so there is nothing to wake
            self._loop.call_soon_threadsafe(self.is_notified.set)


class MemoryNotifier:
    """One for each store. Topics that no `wait` receives are kept for the next one.

    `notify` is called with the lock of the state held, which guards everything here."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._missed: set[str] = set()
        self._waiters: set[Waiter] = set()

    def notify(self, topics: set[str]) -> None:
        """Wake every `wait` that wants one of these topics. Topics that none wants are kept."""
        unwanted = set(topics)
        for waiter in self._waiters:
            if wanted := waiter.wanted(topics):
                waiter.notify(wanted)
                unwanted -= wanted
        self._missed |= unwanted

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        """Wait for a notification of one of these queues (None: of any). Returns the topics; empty
        after `timeout` seconds."""
        waiter = Waiter(queues, asyncio.get_running_loop())
        with self._lock:
            if missed := waiter.wanted(self._missed):
                self._missed -= missed
                return frozenset(missed)
            self._waiters.add(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter.is_notified.wait()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            self._end(waiter, cancelled=True)
            raise
        return self._end(waiter, cancelled=False)

    def _end(self, waiter: Waiter, *, cancelled: bool) -> frozenset[str]:
        """What the waiter received. If it was cancelled, the next `wait` receives it instead."""
        with self._lock:
            self._waiters.discard(waiter)
            if cancelled:
                self._missed |= waiter.received
        return frozenset(waiter.received)
