"""The two kinds of time a contract test can run on."""

import asyncio
from typing import Protocol

from mita.model.time import SECOND, Wait
from mita.testing.clock import FakeClock


class Ticker(Protocol):
    """What a test calls to let time pass. `fake` says whether the store under test obeys it to the
    millisecond."""

    fake: bool

    async def tick(self, ms: Wait) -> None:
        """Let this time pass."""


class FakeTicker(FakeClock):
    """For a store that obeys a fake clock: hand it this one."""

    fake = True

    async def tick(self, ms: Wait) -> None:
        """Move the clock."""
        self.move_ms(ms)


class RealTicker:
    """For a store that keeps its own time: it sleeps."""

    fake = False

    async def tick(self, ms: Wait) -> None:
        """Sleep."""
        await asyncio.sleep(ms / SECOND)
