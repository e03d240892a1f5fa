"""A standalone scheduler: it fires repeats and runs no jobs."""

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext

from mita.errors import StoreError
from mita.events import EventBus
from mita.model.time import Wait
from mita.ports.ids import incarnation
from mita.ports.store import REPEATS, Store
from mita.settings import SchedulerSettings

from .backoff import StoreBackoff
from .blocking import run_until_stopped
from .scheduler import KEEP_CANCELLED, Scheduler
from .startup import Serve, opened

log = logging.getLogger("mita.scheduler")


class StandaloneScheduler:
    """Call `run`, and `stop` to end it. Any number may run, beside each other and beside
    workers."""

    def __init__(
        self,
        open_store: Callable[[], Awaitable[Store]],
        settings: SchedulerSettings,
        repeats: Callable[[], Awaitable[None]] | None = None,
        bus: EventBus | None = None,
        serve: Serve = nullcontext,
        keep: Wait = KEEP_CANCELLED,
    ) -> None:
        self._keep = keep
        self._open_store, self._settings, self._repeats = open_store, settings, repeats
        self._bus, self._serve = bus or EventBus(), serve
        self._stopping = asyncio.Event()
        self._scheduler: Scheduler | None = None
        self.name = settings.name or f"{socket.gethostname()}-{os.getpid()}"
        self.id = incarnation(self.name)

    def stop(self) -> None:
        """End `run`. Safe to call from a signal handler of the event loop."""
        self._stopping.set()

    @property
    def leads(self) -> bool:
        """Whether it is the leader, which fires the repeats."""
        return self._scheduler is not None and self._scheduler.leads

    @property
    def changes(self) -> tuple[int, int]:
        """How often it became the leader, and how often it lost that."""
        return (0, 0) if self._scheduler is None else (self._scheduler.gained, self._scheduler.lost)

    def run_sync(self) -> None:
        """`run`, from sync code. On the main thread SIGTERM and Ctrl-C stop it."""
        run_until_stopped(self.run, self.stop)

    async def run(self) -> None:
        """Fire repeats until `stop` is called. Waits for a store that is unreachable."""
        async with AsyncExitStack() as stack:
            found = await opened(stack, self._serve, self._open_store, self._stopping, self._bus)
            if found is None:
                return
            store, emit = found
            if self._repeats is not None:
                await self._repeats()
            self._scheduler = Scheduler(
                store, self._settings.poll, self._settings.lock, self.id, emit, self._keep
            )
            await self._work(store, self._scheduler)
        log.info("scheduler %s has ended", self.name)

    async def _work(self, store: Store, scheduler: Scheduler) -> None:
        parts = [
            asyncio.create_task(part) for part in (scheduler.run(), self._listen(store, scheduler))
        ]
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([stopping, *parts], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in (stopping, *parts):
                part.cancel()
            ends = await asyncio.gather(*parts, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _listen(self, store: Store, scheduler: Scheduler) -> None:
        backoff = StoreBackoff("wait for wake-ups")
        while True:
            try:
                topics = await store.wait((), self._settings.poll)
                backoff.reset()
            except StoreError as error:
                await backoff.after(error)
                continue
            if REPEATS in topics:
                scheduler.look_now()
