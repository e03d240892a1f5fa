"""Takes over what dead workers left, and forgets what need not be kept."""

import asyncio
import logging
import random

from mita.errors import StoreError
from mita.events import Emit
from mita.events.signals import Settled
from mita.model.job import Claim
from mita.model.outcome import Lost, Settlement
from mita.model.time import Wait
from mita.ports.store import Store
from mita.rules.judge import Retention, judge

from .backoff import StoreBackoff
from .job_log import report
from .rejections import settle

log = logging.getLogger("mita.worker")

BATCH = 500


async def sweep(store: Store, keep: Retention, lease: Wait, worker: str, emit: Emit) -> int:
    """Inherit expired claims and judge them as any run that was lost. Gives how many there were."""
    swept = 0
    while lost := await store.reap(BATCH, lease, worker):
        batch, took = await settle(store, [_judged(claim, keep) for claim in lost], keep)
        emit(Settled(batch, took, worker, lost[-1].at))
        swept += len(lost)
        if len(lost) < BATCH:
            break
    return swept


def _judged(claim: Claim, keep: Retention) -> Settlement:
    verdict = judge(claim, Lost(), keep, random.random())
    report(claim, verdict, 0.0)
    return Settlement(claim, verdict)


class Sweeper:
    """Every `pause` seconds, give or take, so that many workers do not all come at once."""

    def __init__(
        self,
        store: Store,
        keep: Retention,
        lease: Wait,
        worker: str,
        most: int,
        pause: float,
        emit: Emit,
    ) -> None:
        self._store, self._keep, self._lease, self._worker, self._most, self._pause = (
            store,
            keep,
            lease,
            worker,
            most,
            pause,
        )
        self._emit = emit

    async def run(self) -> None:
        patience = StoreBackoff("sweep")
        while True:
            await asyncio.sleep(self._pause * (0.75 + random.random() / 2))
            try:
                await sweep(self._store, self._keep, self._lease, self._worker, self._emit)
                while await self._store.prune(BATCH, self._most) == BATCH:
                    pass
                patience.reset()
            except StoreError as error:
                await patience.after(error)
