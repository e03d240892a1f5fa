"""What rang and who sleeps for it: the half of a bell that is the same wherever the ringing comes
from."""

import asyncio
from collections.abc import Collection
from contextlib import suppress

from mita.ports.store import ASKED, REPEATS

ANY = "*"  # too many topics for one message, or some were missed: wake everybody


class WakeupBuffer:
    """Topics that were heard and that nobody has waited for yet. On one loop."""

    def __init__(self) -> None:
        self._heard: set[str] = set()
        self._someone = asyncio.Event()

    def hear(self, topics: Collection[str]) -> None:
        self._heard.update(topics)
        self._someone.set()

    async def wait(self, queues: Collection[str] | None, timeout: float) -> frozenset[str]:
        """What rang for these queues (None: for any), as soon as something did; nothing when the
        time is over."""
        deadline = asyncio.get_running_loop().time() + timeout
        while not (mine := self._mine(queues)):
            self._someone.clear()
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return frozenset()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._someone.wait()
        self._heard -= mine
        return frozenset(mine)

    def _mine(self, queues: Collection[str] | None) -> set[str]:
        """Any may have been for any of the sleeper's queues, and one of those that every sleeper
        hears."""
        if ANY in self._heard:
            return {*self._heard, *(queues or ()), ASKED, REPEATS}
        if queues is None:
            return set(self._heard)
        return {topic for topic in self._heard if topic in queues or not topic[0].isalnum()}
