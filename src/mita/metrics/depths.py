"""How many jobs each queue has: read from the store at a scrape, at most once a second, and with a
time limit."""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Hashable

from msgspec import Struct

from mita import forks
from mita.errors import MitaError
from mita.model.outbox import OutboxView
from mita.model.view import QueueView
from mita.ports.outbox import JobOutbox
from mita.ports.store import Store
from mita.twins import RunSync

log = logging.getLogger("mita.metrics")

FRESH_S = 1.0  # an answer of the store
STORE_WAIT_S = 2.0  # of a scrape


class Depth(Struct, frozen=True):
    """The job counts and the oldest ready job of each queue; and the rows of the outbox, if the app
    has one that answers."""

    queues: list[QueueView]
    workers: int
    outbox: OutboxView | None = None


class Depths:
    """Reads the depths of one store. `run_sync` runs a coroutine on a loop of its own, and
    `open_store` returns that loop's store. `identity` identifies the store."""

    def __init__(
        self,
        identity: Hashable,
        open_store: Callable[[], Awaitable[Store]],
        run_sync: RunSync,
        outbox: JobOutbox | None = None,
    ) -> None:
        self.identity = identity
        self._outbox = outbox
        self._open_store, self._run_sync = open_store, run_sync
        self._one_at_a_time = forks.guarded(threading.Lock())
        self._known: Depth | None = None
        self._asked = float("-inf")

    @property
    def has_outbox(self) -> bool:
        """Whether it counts the rows of an outbox, too."""
        return self._outbox is not None

    def look(self) -> Depth | None:
        """Returns the depths; None if the store does not answer. Then there are no such figures,
        instead of old ones."""
        with self._one_at_a_time:
            if time.monotonic() - self._asked >= FRESH_S:
                self._known = self._ask()
                self._asked = time.monotonic()
            return self._known

    def _ask(self) -> Depth | None:
        try:
            return self._run_sync(self._within_limits())
        except (MitaError, TimeoutError, OSError) as error:
            log.warning(
                "the depths of the queues cannot be read: %s",
                str(error) or type(error).__name__,
            )
            return None

    async def _within_limits(self) -> Depth:
        async with asyncio.timeout(STORE_WAIT_S):
            store = await self._open_store()
            view = None if self._outbox is None else await _view(self._outbox)
            return Depth(await store.queues(), len(await store.workers()), view)


async def _view(outbox: JobOutbox) -> OutboxView | None:
    """The rows of the outbox; None if its database does not answer: the figures of the store do not
    depend on it."""
    try:
        return await outbox.view()
    except MitaError as error:
        log.warning("the rows of the outbox cannot be counted: %s", error)
        return None
