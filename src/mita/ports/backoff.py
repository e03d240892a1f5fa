"""Pauses that grow with each failure in a row: one implementation for everything that tries
again."""

import asyncio
import random
from contextlib import suppress

from mita.rules.retry import exponential


class Backoff:
    """Pauses of `first_s` seconds, then `factor` times as long after each further failure, up to
    `longest_s`. With `jitter` each pause is cut to a random length between half and all of it, so
    that processes which failed together do not all try again together."""

    __slots__ = ("_factor", "_first_s", "_jitter", "_longest_s", "failures")

    def __init__(
        self, first_s: float, longest_s: float, *, factor: float = 2.0, jitter: bool = True
    ) -> None:
        self._first_s, self._longest_s, self._factor = first_s, longest_s, factor
        self._jitter = jitter
        self.failures = 0  # in a row

    def fail(self) -> float:
        """Count one more failure. Returns the seconds to wait before the next attempt."""
        pause = exponential(self._first_s, self._longest_s, self.failures, self._factor)
        self.failures += 1
        return pause * random.uniform(0.5, 1.0) if self._jitter else pause

    def reset(self) -> None:
        """An attempt succeeded: the next pause is short again."""
        self.failures = 0

    async def sleep(self) -> None:
        """Count one more failure and sleep until the next attempt is due."""
        await asyncio.sleep(self.fail())


async def wait_up_to(seconds: float, event: asyncio.Event) -> None:
    """Wait until the event is set, and no longer than this many seconds."""
    if seconds > 0 and not event.is_set():
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()
