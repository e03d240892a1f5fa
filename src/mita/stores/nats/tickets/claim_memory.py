"""What a store remembers from one claim to the next."""

import asyncio
from typing import TypeAlias

from mita.model.time import SECOND, Moment

QueuePriority: TypeAlias = tuple[str, int]  # each has its own consumer


class ClaimMemory:
    """Remembered between claims, to save requests. Nothing depends on it being up to date."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()  # one claim at a time
        # The highest priority of each queue that was not paused at the last claim.
        self.highest: dict[str, QueuePriority] = {}
        self.with_wakes: set[str] = set()  # queues that have a consumer of wake tickets
        # Pattern of records: until when this is believed, and when the next of them is due.
        self.next_due: dict[str, tuple[Moment, Moment | None]] = {}
        # Tickets given back because they came too early, by job id: due time and queue. Wake
        # tickets by subject.
        self.early: dict[str, tuple[Moment, str]] = {}

    def early_dues(self, queues: set[str], now: Moment) -> list[Moment]:
        """Returns the due times of tickets of these queues that were given back. Forgets those
        that must have come back since."""
        for id in [id for id, (due, _) in self.early.items() if due < now - SECOND]:
            del self.early[id]
        return [due for due, queue in self.early.values() if queue in queues]
