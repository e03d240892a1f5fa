"""Takes over the jobs of dead workers, and deletes ended jobs whose retention is over."""

import asyncio
import logging
import random

from mita.errors import StoreError
from mita.events.signals import RunsSettled
from mita.flows.runs import conclude_settled, recovered
from mita.model.ending import Lost
from mita.model.job import Claim
from mita.model.outcome import Settlement
from mita.rules.judge import judge

from .backoff import StoreBackoff
from .context import WorkerContext
from .job_log import log_verdict
from .rejections import settle
from .repeat_reports import report_repeats

log = logging.getLogger("mita.worker")

BATCH_JOBS = 500
LONGEST_PAUSE_S = 5.0


class Sweeper:
    """Sweeps and prunes every few seconds. `keep_most` limits the ended jobs that each queue keeps.
    The pauses vary, so that many workers do not all sweep at once."""

    def __init__(self, context: WorkerContext, keep_most: int) -> None:
        self._context, self._keep_most = context, keep_most
        self._pause_s = min(LONGEST_PAUSE_S, context.settings.lease / 2)

    async def run(self) -> None:
        """Sweep and prune until cancelled."""
        backoff = StoreBackoff("sweep")
        while True:
            await asyncio.sleep(self._pause_s * random.uniform(0.75, 1.25))
            try:
                await self._sweep()
                while await self._context.store.prune(BATCH_JOBS, self._keep_most) == BATCH_JOBS:
                    pass
                backoff.reset()
            except StoreError as error:
                await backoff.after(error)

    async def _sweep(self) -> None:
        """Take over expired claims, and settle each as a run that was lost."""
        context, store = self._context, self._context.store
        while lost := await store.reap(BATCH_JOBS, context.lease, context.id):
            settlements = [self._settlement(claim) for claim in lost]
            settlements = await recovered(store, settlements, context.retention)
            batch, took = await settle(store, settlements, context.retention)
            context.emit(RunsSettled(batch, took, context.id, lost[-1].at))
            context.tally.lost(batch, took)
            await report_repeats(store, batch, took, context.emit)
            for one in await conclude_settled(store, batch, took, context.retention):
                context.emit(one)
            if len(lost) < BATCH_JOBS:
                break

    def _settlement(self, claim: Claim) -> Settlement:
        verdict = judge(claim, Lost(), self._context.retention, random.random())
        log_verdict(claim, verdict, 0.0)
        return Settlement(claim, verdict)
