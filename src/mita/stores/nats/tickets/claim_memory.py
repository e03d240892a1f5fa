"""What a store remembers from one claim to the next."""

import asyncio
from typing import TypeAlias

from mita.model.time import SECOND, Moment, Wait
from mita.stores.nats.stream.slots import priority_of

from .turns import LaneTurns

# A ticket that was given back until its time is delivered again so much later.
REDELIVERY_MS: Wait = 15
QueuePriority: TypeAlias = tuple[str, int]  # or slot; each has its own consumer


class ClaimMemory:
    """Remembered between claims, to save requests. Nothing depends on it being up to date."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()  # one claim at a time
        # The sources of the highest priority of each queue that was not paused at the last claim.
        self.highest: dict[str, list[QueuePriority]] = {}
        self.with_one_slot: set[str] = set()  # queues all of whose jobs have tickets of one slot
        self.with_wakes: set[str] = set()  # queues that have a consumer of wake tickets
        self._turns: dict[QueuePriority, LaneTurns] = {}
        # Queue and priority: until when this priority goes before lower ones.
        self.leads: dict[QueuePriority, Moment] = {}
        self._recounted: dict[str, Moment] = {}  # limited queues: when
        # Pattern of records: until when this is believed, and when the next of them is due.
        self.next_due: dict[str, tuple[Moment, Moment | None]] = {}
        # Tickets given back because they came too early, by job id: due time and queue.
        self.early: dict[str, tuple[Moment, str]] = {}
        # Wake tickets that this store has made or given back, by subject.
        self.wakes: dict[str, tuple[Moment, str]] = {}

    def turns_of(self, source: QueuePriority) -> LaneTurns:
        """Returns the turns between the lanes of a queue and priority."""
        queue, slot = source
        return self._turns.setdefault((queue, priority_of(slot)), LaneTurns())

    def note_ticket(self, queue: str, slot: int) -> None:
        """The server has told that a new ticket is there."""
        if (turns := self._turns.get((queue, priority_of(slot)))) is not None:
            turns.has_ticket((queue, slot))

    def may_recount(self, queue: str, now: Moment) -> bool:
        """True once a second for each queue: its running jobs may be counted again."""
        if self._recounted.get(queue, 0) > now - SECOND:
            return False
        self._recounted[queue] = now
        return True

    def early_dues(self, queues: set[str], now: Moment) -> list[Moment]:
        """Returns the due times of tickets of these queues that were given back. Forgets those
        that must have come back since."""
        for id in [id for id, (due, _) in self.early.items() if due < now - SECOND]:
            del self.early[id]
        known = [*self.early.values(), *self.wakes.values()]
        return [due for due, queue in known if queue in queues]

    def forget_wakes(self, queues: set[str], now: Moment) -> None:
        """The wake tickets of these queues were pulled: what was due before is with a store."""
        if self.wakes:
            over = now - REDELIVERY_MS
            self.wakes = {
                subject: (due, queue)
                for subject, (due, queue) in self.wakes.items()
                if due > over or queue not in queues
            }
