"""Clocks: the store's, this machine's, and one for tests."""

import time
from typing import Protocol

from mita.model.time import Moment, Wait


class Clock(Protocol):
    """A clock that a store or a test is given."""

    def now(self) -> Moment:
        """The current time, in milliseconds since the epoch."""


def wall_clock() -> Moment:
    """The time of this machine: for showing when something happened, never for decisions."""
    return time.time_ns() // 1_000_000


class SystemClock:
    """The machine's clock. If that is set back, this one stands still until it has caught up."""

    def __init__(self) -> None:
        self._latest: Moment = 0

    def now(self) -> Moment:
        """The current time; it never goes back."""
        self._latest = max(self._latest, wall_clock())
        return self._latest


class StoreClock:
    """The store's clock as a worker knows it, without a call to the store: for events, never for
    decisions. Each heartbeat measures `offset`, how many milliseconds this machine is ahead."""

    def __init__(self) -> None:
        self.offset: Wait = 0

    def now(self) -> Moment:
        """The estimated time of the store, in milliseconds."""
        return wall_clock() - self.offset
