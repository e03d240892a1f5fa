"""A small worker in the process of the dashboard, for bulk runs only."""

import asyncio
import logging
from contextlib import suppress

from mita.app import Mita
from mita.engine.worker import Worker
from mita.errors import MitaError
from mita.rules.own_tasks import BULK_QUEUE

log = logging.getLogger("mita.web")

BULK_SERVER_SLOTS = 4
LOOK_AGAIN_S = 5.0  # for bulk runs that others began, or that were interrupted
STOP_S = 3.0
_LATEST_RUNS = 20
_UNFINISHED = ("ready", "scheduled", "running", "blocked", "waiting")


class BulkServer:
    """Runs bulk runs while the dashboard is served. Its worker lives only while there is one."""

    def __init__(self, app: Mita) -> None:
        self._app = app
        self._worker: Worker | None = None
        self._running: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()

    async def start(self) -> None:
        """Look for bulk runs now, and again and again."""
        self._begun.set()
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._serve())

    async def close(self) -> None:
        """Stop. A bulk run that is not over goes on with another worker."""
        running, self._running = self._running, None
        if running is None:
            return
        if self._worker is not None:
            self._worker.stop()
            await asyncio.wait([running], timeout=STOP_S)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    async def _serve(self) -> None:
        while self._running is not None:
            self._begun.clear()
            try:
                page = await self._app.bulks(limit=_LATEST_RUNS)
                if any(bulk.state in _UNFINISHED for bulk in page.bulks):
                    await self._work()
            except MitaError as error:
                log.warning("bulk runs do not go on here, because the store failed: %s", error)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._begun.wait(), LOOK_AGAIN_S)

    async def _work(self) -> None:
        """Run what is there."""
        worker = self._worker = self._app.worker(
            [BULK_QUEUE],
            concurrency=BULK_SERVER_SLOTS,
            schedule=False,
            grace=1,
            name="dashboard",
            until_empty=True,
        )
        try:
            await worker.run()
        finally:
            self._worker = None
