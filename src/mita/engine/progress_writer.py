"""Writes the progress of one run, often enough for a reader and not more often."""

import asyncio
import logging
import math

from mita.errors import Rejected, StoreError
from mita.model.job import Claim
from mita.model.outcome import Progress
from mita.ports.backoff import wait_up_to
from mita.ports.store import Store

from .backoff import run_backoff

log = logging.getLogger("mita.worker")

WRITE_EVERY_S = 0.25
# that a handler waits for a write; both go on after that
WRITE_WAIT_S = 1.0


class ProgressWriter:
    """Writes the first report at once. A report that comes soon after waits a little and may be
    replaced by a newer one. The last one is written before the run is settled: it is where the next
    run continues. While the store is unreachable the newest report is kept and retried, so a report
    never fails its run."""

    def __init__(self, claim: Claim, store: Store) -> None:
        self._claim, self._store = claim, store
        self._loop = asyncio.get_running_loop()
        self._pending: bytes | None = None
        # exists while a report is pending, so that writes stay in order
        self._writer: asyncio.Task[None] | None = None
        self._written = -math.inf
        self._tried = asyncio.Event()
        self._hurry = asyncio.Event()
        self._held = False
        self._lost = False
        self._failed: StoreError | None = None

    async def add(self, packed: bytes) -> bool:
        """Report progress. Returns False if the run no longer owns its job. Raises an error of the
        store that is not transient."""
        self._pending = packed
        if self._writer is None and not self._held:
            at_once = self._written + WRITE_EVERY_S <= self._loop.time()
            self._start()
            if at_once:
                self._tried.clear()
                await wait_up_to(WRITE_WAIT_S, self._tried)
        if self._failed is not None:
            error, self._failed = self._failed, None
            raise error
        return not self._lost

    async def flush(self) -> None:
        """Write the last report, and retry while the store is unreachable: the caller limits the
        time."""
        self._held = False
        self._hurry.set()
        if self._pending is not None and self._writer is None:
            self._start()
        if self._writer is not None:
            await asyncio.wait([self._writer])
        self._hurry.clear()

    def hold(self) -> None:
        """Keep later reports until the next `flush`. The handler may settle the job in its own
        transaction: while that is open it has the job locked, and after it a report is too late."""
        self._held = True

    async def close(self) -> None:
        """Write the last report, and none after that."""
        try:
            await self.flush()
        finally:
            if self._writer is not None:
                self._writer.cancel()

    def _start(self) -> None:
        self._writer = self._loop.create_task(self._write_all())

    async def _write_all(self) -> None:
        """Write the pending report, and the ones that arrive meanwhile, at most one in
        `WRITE_EVERY_S` seconds (`_hurry` skips that pause). While the store is unreachable the
        newest report is kept and tried again. `_tried` is set after each try, for `report`."""
        backoff = run_backoff()
        try:
            while self._pending is not None and not self._lost and not self._held:
                await wait_up_to(self._written + WRITE_EVERY_S - self._loop.time(), self._hurry)
                packed, self._pending = self._pending, None
                try:
                    await self._write(packed)
                except Rejected as error:
                    log.warning("progress of job %s is not kept: %s", self._claim.id, error)
                except StoreError as error:
                    if not error.transient:
                        self._failed = error
                        return
                    log.debug(
                        "progress of job %s could not be written, and is tried again: %s",
                        self._claim.id,
                        error,
                    )
                    self._pending = self._pending or packed
                    self._tried.set()
                    await backoff.sleep()
                else:
                    backoff.reset()
                    self._tried.set()
        finally:
            self._writer = None
            self._tried.set()

    async def _write(self, packed: bytes) -> None:
        self._written = self._loop.time()
        [took] = await self._store.progress([Progress(self._claim, packed)])
        self._lost = not took
