"""A worker inside a web process, for development: one program to start instead of two.

One process of a machine runs it at a time. A web server may run the same code in several processes
(`uvicorn --workers 4`), or start the next process before the last one has ended (`--reload`), so
the processes agree by a lock in the store."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

from mita.app import Mita
from mita.engine.backoff import reach
from mita.engine.worker import Worker
from mita.errors import StoreError
from mita.model.time import SECOND
from mita.ports.ids import incarnation
from mita.ports.store import Store

log = logging.getLogger("mita.worker")

LOCK_S = 10.0  # how long a killed process keeps the others from running their worker
RENEW_S = 2.0  # between two attempts to take or to renew the lock
GRACE_S = 5.0  # for running jobs, when the web server stops
LEASE_S = 10.0  # after that, the jobs of a killed process run again

WorkerChoice: TypeAlias = bool | Callable[[], Worker]


def worker_factory(app: Mita, choice: WorkerChoice) -> Callable[[], Worker] | None:
    """How to make the embedded worker of this app: None for `False`, a worker for all queues for
    `True`, else the user's own function."""
    if choice is False:
        return None
    if choice is not True:
        return choice
    name = f"web-{socket.gethostname()}-{os.getpid()}"
    return lambda: app.worker(grace=GRACE_S, lease=LEASE_S, name=name)


@asynccontextmanager
async def embedded_worker(app: Mita, make: Callable[[], Worker]) -> AsyncIterator[None]:
    """Run workers that `make` returns on this event loop until the end of the block. Then running
    jobs get the grace time of the worker."""
    stopping = asyncio.Event()
    make()  # a mistake in its options stops the web server now, not later
    running = asyncio.create_task(_run_alone(app, make, stopping), name="mita-embedded-worker")
    running.add_done_callback(_log_failure)
    try:
        yield
    finally:
        stopping.set()
        await asyncio.wait([running])


def _log_failure(running: "asyncio.Task[None]") -> None:
    if not running.cancelled() and (error := running.exception()) is not None:
        log.error("the embedded worker has ended: %s", error, exc_info=error)


async def _run_alone(app: Mita, make: Callable[[], Worker], stopping: asyncio.Event) -> None:
    """Run a worker whenever this process has the lock, until `stopping` is set."""
    store = await reach(app.open_store, stopping)
    if store is None:
        return
    lock = EmbeddedLock(store)
    try:
        while await lock.take(stopping):
            worker = make()
            running = asyncio.create_task(worker.run())
            lost = asyncio.create_task(lock.keep())
            stop = asyncio.create_task(stopping.wait())
            await asyncio.wait([running, lost, stop], return_when=asyncio.FIRST_COMPLETED)
            ends_itself = running.done() and not worker.max_jobs_reached
            worker.stop()
            for helper in (lost, stop):
                helper.cancel()
            await asyncio.wait([running, lost, stop])
            running.result()
            if ends_itself:
                return
    finally:
        await lock.close()


class EmbeddedLock:
    """The lock of the embedded workers of this machine, in the store of their jobs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._name = f"embedded worker of {socket.gethostname()}"
        self._holder = incarnation(f"{os.getpid()}")
        self._has_warned = False

    async def take(self, stopping: asyncio.Event) -> bool:
        """Wait for the lock. Returns False if `stopping` was set before. Logs once that another
        process has it."""
        while not stopping.is_set():
            if (taken := await self._try_once()) is not None:
                if taken:
                    return True
                self._warn()
            with suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), RENEW_S)
        return False

    async def keep(self) -> None:
        """Renew the lock until another process has it."""
        while True:
            await asyncio.sleep(RENEW_S)
            if await self._try_once() is False:
                log.warning("another process runs the embedded worker now: this one stops its own")
                return

    async def close(self) -> None:
        """Release the lock, and close the store."""
        with suppress(StoreError):
            await self._store.unlock(self._name, self._holder)
        await self._store.close()

    async def _try_once(self) -> bool | None:
        """Returns whether this process has the lock; None if the store is unreachable."""
        try:
            return await self._store.lock(self._name, self._holder, round(LOCK_S * SECOND))
        except StoreError:
            return None

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "another process of this machine runs the embedded worker of these jobs, so "
                "process %d runs none until that one ends. worker=True is for development, with "
                "one web process. With several, leave it out and start `mita worker` beside them",
                os.getpid(),
            )
