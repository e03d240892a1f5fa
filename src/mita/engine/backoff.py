"""Waiting for a store that is away: 50, 100, 200, 400 ms … with jitter, up to a few seconds, for as
long as it takes."""

import asyncio
import itertools
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TypeVar

from mita.errors import StoreError
from mita.rules.explain.reasons.words import times

T = TypeVar("T")

FIRST = 0.05
LONGEST = 5.0
# failures in a row that are logged one by one; after that one line in `LONGEST` seconds is enough
EACH = 5
LONGEST_IN_A_RUN = 1.0  # between two tries that a handler waits for

log = logging.getLogger("mita.worker")


def delays() -> Iterator[float]:
    """How long to wait before each next try of a call that a handler waits for."""
    for failures in itertools.count():
        yield min(FIRST * 2.0 ** min(failures, 20), LONGEST_IN_A_RUN) * (0.5 + random.random() / 2)


class StoreBackoff:
    """One per loop that talks to the store. `what` is what it was about to do, for the log;
    `longest` bounds its waits."""

    def __init__(self, what: str, longest: float = LONGEST) -> None:
        self._what, self._longest = what, longest
        self._failures = 0
        self._told = 0.0

    async def after(self, error: StoreError, leaving: asyncio.Event | None = None) -> None:
        """Sleep a while after a failure, unless it is time to leave; each one in a row makes it
        longer."""
        ceiling = min(FIRST * 2.0 ** min(self._failures, 20), self._longest)
        self._failures += 1
        wait = ceiling * (0.5 + random.random() / 2)
        if self._failures <= EACH or time.monotonic() - self._told >= LONGEST:
            self._told = time.monotonic()
            log.warning(
                "cannot %s (try %d), again in %.2f s: %s", self._what, self._failures, wait, error
            )
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await (leaving or asyncio.Event()).wait()

    def reset(self) -> None:
        if self._failures:
            log.warning(
                "can %s again after %s",
                self._what,
                times(self._failures, "failed try", "failed tries"),
            )
            self._failures = 0


async def reach(
    ask: Callable[[], Awaitable[T]], stopping: asyncio.Event, what: str = "open the store"
) -> T | None:
    """Return what `ask` returns; while the store is unreachable, ask again. None: told to stop
    before it answered."""
    patience = StoreBackoff(what)
    while not stopping.is_set():
        try:
            return await ask()
        except StoreError as error:
            if not error.transient:
                raise
            await patience.after(error, stopping)
    return None


async def within(seconds: float, what: str, act: Callable[[], Awaitable[object]]) -> None:
    """Do this at the end of a worker, and leave it if the store does not answer: a store that is
    gone holds nothing up."""
    try:
        async with asyncio.timeout(seconds):
            await act()
    except TimeoutError:
        log.warning("could not %s within %g s", what, seconds)
    except StoreError as error:
        log.warning("could not %s: %s", what, error)
