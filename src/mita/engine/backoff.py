"""Waiting for a store that is unreachable, for as long as it takes. The first failures are logged
one by one, later ones seldom."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mita.errors import StoreError
from mita.ports.backoff import Backoff, wait_up_to
from mita.rules.display import times

T = TypeVar("T")

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0
LONGEST_PAUSE_IN_RUN_S = 1.0  # between two attempts while a handler waits for the store
LOGGED_FAILURES = 5  # in a row; after that there is one line in `LOG_EVERY_S`
LOG_EVERY_S = 5.0

log = logging.getLogger("mita.worker")


def run_backoff() -> Backoff:
    """The pauses between two attempts of a store call that a handler waits for."""
    return Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_IN_RUN_S)


class StoreBackoff:
    """One for each loop that calls the store. `action` says in the log what the loop could not do;
    `longest_s` limits its pauses."""

    def __init__(self, action: str, longest_s: float = LONGEST_PAUSE_S) -> None:
        self._action = action
        self._backoff = Backoff(FIRST_PAUSE_S, longest_s)
        self.failures = 0  # in a row
        self._logged_at = 0.0

    async def after(self, error: StoreError, stopping: asyncio.Event | None = None) -> None:
        """Log this failure and sleep, longer after each failure in a row, or until `stopping` is
        set."""
        pause = self._backoff.fail()
        failures = self.failures = self._backoff.failures
        if failures <= LOGGED_FAILURES or time.monotonic() - self._logged_at >= LOG_EVERY_S:
            self._logged_at = time.monotonic()
            log.warning(
                "cannot %s (try %d), next try in %.2f s: %s", self._action, failures, pause, error
            )
        await wait_up_to(pause, stopping or asyncio.Event())

    def reset(self) -> None:
        """A call succeeded: the next pause is short again."""
        if self.failures:
            failed = times(self.failures, "failed try", "failed tries")
            log.warning("can %s again after %s", self._action, failed)
            self.failures = 0
            self._backoff.reset()


async def reach(
    ask: Callable[[], Awaitable[T]], stopping: asyncio.Event, action: str = "open the store"
) -> T | None:
    """Returns what `ask` returns, and calls it again while the store is unreachable. Returns None
    if `stopping` was set before that. `action` names the call in the log."""
    backoff = StoreBackoff(action)
    while not stopping.is_set():
        try:
            return await ask()
        except StoreError as error:
            if not error.transient:
                raise
            await backoff.after(error, stopping)
    return None


async def within(seconds: float, action: str, act: Callable[[], Awaitable[object]]) -> None:
    """Call `act` while a worker stops, for at most this many seconds: a store that does not answer
    must not hold the worker up. `action` names it in the log."""
    try:
        async with asyncio.timeout(seconds):
            await act()
    except TimeoutError:
        log.warning("could not %s within %g s", action, seconds)
    except StoreError as error:
        log.warning("could not %s: %s", action, error)
