"""Adds what a worker has counted to the history of runs in the store."""

import asyncio
import logging
import random

from mita.errors import StoreError
from mita.ports.store import Store

from .run_tally import RunTally

log = logging.getLogger("mita.worker")

FLUSH_S = 2.0  # between two calls to the store


class HistoryWriter:
    """Calls the store once in `FLUSH_S` if runs have ended, and never otherwise. What the store
    does not take is kept and sent later. Nothing that goes wrong here ends the worker."""

    def __init__(self, tally: RunTally, store: Store) -> None:
        self._tally, self._store = tally, store
        self._flushing: asyncio.Task[None] | None = None
        self._has_warned = False

    async def run(self) -> None:
        """Write until cancelled. The pauses vary, so that many workers do not all write at once."""
        while True:
            await asyncio.sleep(FLUSH_S * random.uniform(0.75, 1.25))
            self._flushing = asyncio.create_task(self._flush())
            # a call that is under way when the worker stops is not broken off: `close` waits for it
            await asyncio.shield(self._flushing)

    async def close(self) -> None:
        """Write what is left. The caller limits the time."""
        if self._flushing is not None:
            await self._flushing
        await self._flush()

    async def _flush(self) -> None:
        counts = self._tally.take()
        if not counts:
            return
        try:
            await self._store.count_runs(counts)
        except StoreError as error:
            self._tally.give_back(counts)
            if error.transient:
                log.debug("runs could not be counted, and are counted later: %s", error)
            else:
                self._warn(error)
        except Exception as error:  # noqa: BLE001 - a worker does not stop because of a chart
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        """Log what will not pass by itself, once."""
        if not self._has_warned:
            self._has_warned = True
            log.warning("the history of runs has gaps: the store refuses it: %s", error)
