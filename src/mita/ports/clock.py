"""You are handed a clock."""

import time
from typing import Protocol

from mita.model.time import Moment, Wait


class Clock(Protocol):
    def now(self) -> Moment: ...


def wall_clock() -> Moment:
    """This machine's own time: for telling people when something was, never for deciding."""
    return time.time_ns() // 1_000_000


class SystemClock:
    """The machine's clock, which may be set back: then this one stands still until it has caught
    up."""

    def __init__(self) -> None:
        self._latest: Moment = 0

    def now(self) -> Moment:
        self._latest = max(self._latest, wall_clock())
        return self._latest


class StoreClock:
    """The store's clock as a worker knows it, without a call to the store: for events, never for
    decisions. Each heartbeat measures `offset`, how many milliseconds this machine is ahead."""

    def __init__(self) -> None:
        self.offset: Wait = 0

    def now(self) -> Moment:
        return wall_clock() - self.offset
