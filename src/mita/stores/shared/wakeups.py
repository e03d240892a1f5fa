"""Notifications that were received, until a `wait` returns them: the part of notifying that is the
same in every store."""

import asyncio
from collections.abc import Collection
from contextlib import suppress

from mita.ports.store import ASKED, REPEATS

ANY = "*"  # in place of topics: there were too many, or some were missed


class WakeupBuffer:
    """Topics that no `wait` has returned yet. It is used on one event loop."""

    def __init__(self) -> None:
        self._topics: set[str] = set()
        self._is_notified = asyncio.Event()

    def add(self, topics: Collection[str]) -> None:
        """Topics that were received."""
        self._topics.update(topics)
        self._is_notified.set()

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        """Wait for a topic of these queues (None: of any). Returns the topics; empty after
        `timeout` seconds."""
        deadline = asyncio.get_running_loop().time() + timeout
        while not (mine := self._mine(queues)):
            self._is_notified.clear()
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return frozenset()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._is_notified.wait()
        self._topics -= mine
        return frozenset(mine)

    def _mine(self, queues: Collection[str] | None) -> set[str]:
        """The topics for these queues, and those that every `wait` returns. `ANY` may stand for
        each of them."""
        if ANY in self._topics:
            return {*self._topics, *(queues or ()), ASKED, REPEATS}
        if queues is None:
            return set(self._topics)
        return {topic for topic in self._topics if topic in queues or not topic[0].isalnum()}
