"""Reading in advance what the next wake ticket of a key needs.

A rate with many waiting jobs gives tokens every few milliseconds, and on a busy machine each
request to the server takes as long. So a store that has made a wake ticket reads the key, the first
waiters and their jobs before it is due, and then it only writes. If something has changed since,
the server refuses that, and everything is read again."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from mita.model.time import SECOND, Moment, Wait

PREPARED_MS: Wait = SECOND  # how long what was read is used
PREPARED_KEYS = 20  # keys

T = TypeVar("T")


class PreparedWakes(Generic[T]):
    """What one store has read in advance, by queue and key."""

    def __init__(self) -> None:
        self._reads: dict[tuple[str, str], tuple[asyncio.Task[T], Moment]] = {}

    def read(self, key: tuple[str, str], read: Coroutine[Any, Any, T], now: Moment) -> None:
        """Begin to read for this key."""
        self.take(key, now)
        for old in [one for one, (_, at) in self._reads.items() if at <= now - PREPARED_MS]:
            self.take(old, now)
        if len(self._reads) < PREPARED_KEYS:
            self._reads[key] = asyncio.ensure_future(read), now
        else:
            read.close()

    def take(self, key: tuple[str, str], now: Moment) -> T | None:
        """Returns what was read for this key, once; None if there is nothing, or nothing yet."""
        task, at = self._reads.pop(key, (None, 0))
        if task is None:
            return None
        if not task.done() or at <= now - PREPARED_MS:
            task.cancel()
            return None
        return None if task.cancelled() or task.exception() is not None else task.result()

    def close(self) -> None:
        """Forget what was read."""
        for task, _ in self._reads.values():
            task.cancel()
        self._reads.clear()
