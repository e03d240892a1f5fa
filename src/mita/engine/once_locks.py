"""The locks of shared once-values: of all runs that ask for a value at the same time, one computes
it.

A lock lasts for one lease, and the lease keeper extends it while its run computes the value. If the
run dies, another one can compute the value when the lease is over."""

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import Any, Protocol

from mita.errors import StoreError
from mita.model.job import Claim
from mita.model.time import Wait
from mita.ports.ids import new_id
from mita.ports.store import Store

log = logging.getLogger("mita.worker")


class OnceLocks:
    """The locks that one run has. `held` is the holder of each, by the name of the lock; it is
    replaced and never changed, because the lease keeper's thread reads it."""

    def __init__(self, claim: Claim, store: Store, lease: Wait) -> None:
        self._claim, self._store, self._lease = claim, store, lease
        self.held: dict[str, str] = {}

    def new_holder(self) -> str:
        """Returns a holder for one call of `once`: two calls of a run wait for each other, too."""
        return f"{self._claim.id}:{self._claim.token}:{new_id()}"

    async def take(self, name: str, holder: str) -> bool:
        """Take the lock of this value. Returns False if another run has it. If this call is
        cancelled, the store may have given the lock all the same, so it is released."""
        lock = once_lock(name)
        try:
            taken = await self._store.lock(lock, holder, self._lease)
        except asyncio.CancelledError:
            await _finished(self._unlock(lock, holder, name))
            raise
        if taken:
            self.held = {**self.held, lock: holder}
        return taken

    async def release(self, name: str) -> None:
        """Release the lock of this value, even if the run is cancelled meanwhile. If the store is
        unreachable, the lock ends with its lease."""
        lock = once_lock(name)
        holder = self.held.get(lock)
        # before the lock is released: `LockExtender` relies on it
        self.held = {other: by for other, by in self.held.items() if other != lock}
        if holder is not None:
            await _finished(self._unlock(lock, holder, name))

    async def _unlock(self, lock: str, holder: str, name: str) -> None:
        try:
            await self._store.unlock(lock, holder)
        except StoreError as error:
            log.warning("job %s could not release once(%r): %s", self._claim.id, name, error)


class LockedRun(Protocol):
    """A run that may have locks."""

    locks: OnceLocks | None


class LockExtender:
    """Extends the locks of runs, on the lease keeper's thread.

    To extend a lock that was released meanwhile is to take it again, and then no other run could
    compute the value until its lease is over. So a lock whose run has released it is released once
    more, after it was extended."""

    def __init__(self) -> None:
        # by holder, until the run is over: also after an error, when the store may have done it
        self._extended: dict[str, tuple[str, OnceLocks]] = {}

    async def extend(self, store: Store, runs: Collection[LockedRun], lease: Wait) -> None:
        """Extend the locks that these runs have now."""
        having = [run.locks for run in runs if run.locks is not None]
        if not having and not self._extended:
            return
        for locks in having:
            for lock, holder in locks.held.items():
                self._extended[holder] = lock, locks
                await store.lock(lock, holder, lease)
        for holder, (lock, locks) in list(self._extended.items()):
            if lock not in locks.held or locks.held[lock] != holder:
                await store.unlock(lock, holder)
                del self._extended[holder]
            elif locks not in having:  # a lost run: its lock ends with its lease
                del self._extended[holder]


def once_lock(name: str) -> str:
    """The name of the lock of a shared once-value."""
    return f"once:{name}"


async def _finished(work: Coroutine[Any, Any, None]) -> None:
    """Wait for `work`. It goes on if the wait is cancelled."""
    task = asyncio.ensure_future(work)
    await asyncio.shield(task)
