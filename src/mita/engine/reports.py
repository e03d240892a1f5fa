"""The progress of one run, written down often enough for a reader and never more often."""

import asyncio
import logging
import math

from mita.errors import StoreError
from mita.model.job import Claim
from mita.model.outcome import Progress
from mita.ports.store import Store

log = logging.getLogger("mita.worker")

REPORT_EVERY = 0.25  # seconds between two writes


class Reports:
    """The first is written at once. One that comes soon after waits a little, and a newer one takes its place; the last is
    written before the run is put down, for it is the checkpoint that the next run goes on from."""

    __slots__ = ("_claim", "_lock", "_loop", "_lost", "_pending", "_store", "_timer", "_writing", "_written")

    def __init__(self, claim: Claim, store: Store) -> None:
        self._claim, self._store = claim, store
        self._loop = asyncio.get_running_loop()
        self._lock = asyncio.Lock()  # two writes on their way could overtake each other
        self._pending: bytes | None = None
        self._written = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._lost = False

    async def add(self, packed: bytes) -> bool:
        """False: the run no longer owns its job."""
        self._pending = packed
        rest = self._written + REPORT_EVERY - self._loop.time()
        if rest <= 0:
            await self._write()
        elif self._timer is None:
            self._timer = self._loop.call_later(rest, self._later)
        return not self._lost

    async def close(self) -> None:
        """Write down what is left. A store that is away must not keep the run from its end."""
        if self._timer is not None:
            self._timer.cancel()
        await self._write_quietly()

    def _later(self) -> None:
        self._timer = None
        self._writing = self._loop.create_task(self._write_quietly())

    async def _write_quietly(self) -> None:
        try:
            await self._write()
        except StoreError as error:
            log.debug("progress of job %s could not be written: %s", self._claim.id, error)

    async def _write(self) -> None:
        async with self._lock:
            packed, self._pending = self._pending, None
            if packed is None or self._lost:
                return
            self._written = self._loop.time()
            [took] = await self._store.progress([Progress(self._claim, packed)])
            self._lost = not took
