"""A standalone relay: it sends the rows of an outbox to the store and runs no jobs."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from mita.events import EventBus
from mita.ports.ids import incarnation
from mita.ports.outbox import JobOutbox
from mita.ports.store import Store

from .blocking import run_until_stopped
from .startup import Serve, opened

log = logging.getLogger("mita.relay")


class StandaloneRelay:
    """Call `run`, and `stop` to end it. Any number may run, beside each other and beside workers:
    one of them sends, and the others stand by."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        outbox: JobOutbox,
        bus: EventBus,
        serve: Serve,
        name: str = "",
    ) -> None:
        self._open_store, self._outbox = open_store, outbox
        self._bus, self._serve = bus, serve
        self._stopping = asyncio.Event()
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.id = incarnation(self.name)

    def stop(self) -> None:
        """End `run`. Safe to call from a signal handler of the event loop."""
        self._stopping.set()

    def run_sync(self) -> None:
        """`run`, from sync code. On the main thread SIGTERM and Ctrl-C stop it."""
        run_until_stopped(self.run, self.stop)

    async def run(self) -> None:
        """Send rows until `stop` is called. Waits for a store that is unreachable."""
        async with AsyncExitStack() as stack:
            found = await opened(stack, self._serve, self._open_store, self._stopping, self._bus)
            if found is None:
                return
            relaying = asyncio.create_task(self._outbox.relay(found[0], self.id))
            stopping = asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait([relaying, stopping], return_when=asyncio.FIRST_COMPLETED)
                if relaying.done():
                    relaying.result()
            finally:
                for part in (relaying, stopping):
                    part.cancel()
                await asyncio.gather(relaying, stopping, return_exceptions=True)
        log.info("relay %s has ended", self.name)
