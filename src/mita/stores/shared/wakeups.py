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
        """Wait for a topic of these queues (None: of any), or a topic that every `wait` returns.
        Returns the topics; empty after `timeout` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            if ANY in self._topics:  # each topic may have been notified
                mine = {*self._topics, *(queues or ()), ASKED, REPEATS}
            else:
                # a topic that is not the name of a queue begins with a sign
                mine = {
                    topic
                    for topic in self._topics
                    if queues is None or topic in queues or not topic[0].isalnum()
                }
            left = deadline - loop.time()
            if mine or left <= 0:
                self._topics -= mine
                return frozenset(mine)
            self._is_notified.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._is_notified.wait()
