"""The part of the store contract that schedulers need: repeats, and locks by which they agree who
works."""

from collections.abc import Sequence
from typing import Protocol

from mita.model.repeat import DueRepeats, Firing, Repeat
from mita.model.time import Wait


class RepeatStore(Protocol):
    """The operations on repeats."""

    async def put_repeat(self, repeat: Repeat) -> Repeat:
        """Insert a repeat, or replace its spec and cursor. Count, last fire and a pause are kept;
        the revision grows. The same spec again changes nothing. An active repeat without a cursor
        continues at the stored cursor. Returns the repeat as it is stored."""

    async def remove_repeats(self, keys: Sequence[str]) -> list[bool]:
        """Remove repeats. False: there was none with this key."""

    async def pause_repeats(self, keys: Sequence[str], reason: str = "") -> list[bool]:
        """Pause active repeats. `reason` is stored with each as its `pause_reason`. False: it was
        not active."""

    async def resume_repeats(self, keys: Sequence[str]) -> list[bool]:
        """Resume paused repeats. Their `pause_reason` is removed, and their failures are counted
        from 0 again. False: it was not paused."""

    async def report_repeat(self, key: str, failed: bool) -> int:
        """Count a job of this repeat that ended: a failure adds one to its failures in a row, a
        success sets them to 0. Returns how many there are now; 0 if there is no such repeat. Called
        only for repeats with `pause_after`."""

    async def due_repeats(self, limit: int) -> DueRepeats:
        """Return up to `limit` repeats whose cursor has passed, oldest first."""

    async def fire(self, firings: Sequence[Firing]) -> list[bool]:
        """Apply each firing whose cursor and revision still match an active repeat; False for the
        others."""

    async def list_repeats(self) -> list[Repeat]:
        """Return all repeats, by key."""

    async def find_repeats(self, keys: Sequence[str]) -> list[Repeat | None]:
        """Return the repeats with these keys; None for a key that is not there."""


class Leadership(Protocol):
    """Locks by which schedulers agree who works. They only save work: correctness never depends on
    one, because a process that holds a lock can be stopped for longer than the lock lasts."""

    async def lock(self, name: str, holder: str, keep: Wait) -> bool:
        """Take a lock for `keep` from now. Returns False if another holder has it. A holder that
        has the lock already extends it."""

    async def unlock(self, name: str, holder: str) -> None:
        """Release the lock, if this holder has it."""
