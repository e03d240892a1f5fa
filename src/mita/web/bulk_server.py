"""A small worker in the process of the dashboard, for bulk runs only."""

import asyncio
import logging

from mita.app import Mita
from mita.engine.worker import Worker
from mita.errors import MitaError
from mita.rules.own_tasks import BULK_QUEUE

log = logging.getLogger("mita.web")

BULK_SERVER_SLOTS = 4
TRY_AGAIN_S = 5.0  # after the store was away


class BulkServer:
    """Runs bulk runs while the dashboard is served."""

    def __init__(self, app: Mita) -> None:
        self._app = app
        self._worker: Worker | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin, unless it has begun."""
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._serve())

    async def close(self) -> None:
        """Stop. A bulk run that is not over goes on with another worker."""
        running, self._running = self._running, None
        if running is None:
            return
        if self._worker is not None:
            self._worker.stop()
        await asyncio.wait([running], timeout=TRY_AGAIN_S)
        running.cancel()

    async def _serve(self) -> None:
        while self._running is not None:
            self._worker = self._app.worker(
                [BULK_QUEUE],
                concurrency=BULK_SERVER_SLOTS,
                schedule=False,
                grace=1,
                name="dashboard",
            )
            try:
                await self._worker.run()
                return
            except MitaError as error:
                log.warning("bulk runs do not go on here, because the store failed: %s", error)
                await asyncio.sleep(TRY_AGAIN_S)
