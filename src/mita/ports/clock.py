"""You are handed a clock."""

import time
from typing import Protocol

from mita.model.time import Moment


class Clock(Protocol):
    def now(self) -> Moment: ...


class SystemClock:
    """The machine's clock, which may be set back: then this one stands still until it has caught up."""

    def __init__(self) -> None:
        self._latest: Moment = 0

    def now(self) -> Moment:
        self._latest = max(self._latest, time.time_ns() // 1_000_000)
        return self._latest
