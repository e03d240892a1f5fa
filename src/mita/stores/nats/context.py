"""What the verbs of one open store work with."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from mita.model.time import Moment, Wait

from .client.wire import NatsWire
from .notify import NatsNotifier
from .stream.claim_lists import ClaimLists
from .stream.clock import ServerClock
from .stream.reader import StoredMessageReader
from .stream.subjects import Subjects
from .tickets.claim_memory import ClaimMemory, QueuePriority
from .tickets.planned_wakes import PlannedWakes
from .tickets.prepared_wakes import PreparedWakes

if TYPE_CHECKING:
    from .stream.transaction import StreamTransaction

HEADER_BYTES = 2048  # of a message, reserved for headers: they name two subjects at most
NAME_BYTES = 2048  # of a record, reserved for the names and keys of a job
# How long until all messages of a batch can be read; one of a thousand takes a tenth of it.
BATCH_VISIBLE_S = 0.2
HISTORY_SLOTS = 8  # messages for the history of one minute; writers of one slot may collide


async def _no_fail_point(_: str) -> None:
    return None


class NatsContext:
    """The connection, the clock and what this store remembers between two calls."""

    def __init__(
        self, wire: NatsWire, subjects: Subjects, clock: ServerClock, *, replicas: int
    ) -> None:
        self.wire = wire
        self.subjects = subjects
        self.clock = clock
        self.replicas = replicas
        self.reader = StoredMessageReader(
            wire, subjects.stream, subjects.anchor if replicas > 1 else None
        )
        self.claim_lists = ClaimLists(wire, subjects)
        self.claim_memory = ClaimMemory()
        self.notifier = NatsNotifier(wire, subjects, self.claim_memory.note_ticket)
        self.planned = PlannedWakes(wire, subjects, clock, self.notifier.add)
        self.prepared: PreparedWakes[StreamTransaction] = PreparedWakes()
        # Called between two steps of a verb; tests let the process die here.
        self.fail_point: Callable[[str], Awaitable[None]] = _no_fail_point
        self.consumers: set[QueuePriority] = set()  # that are known to exist
        self.leaderless: set[QueuePriority] = set()  # whose consumer did not answer the last pull
        self.ageing: Wait | None = None  # `NatsStore.ageing`
        self.history_slot = random.randrange(HISTORY_SLOTS)
        # The lane of a queue's, priority's and group's jobs, and until when that is believed.
        self.lanes: dict[tuple[str, int, str], tuple[int, float]] = {}
        self.limited: set[str] = set()  # queues that have a limit, as far as this store knows
        # No record before this sequence is one of an ended job.
        self.nothing_ended_before = 1
        self.reconnected_at: Moment = 0  # the last time; 0: never
        wire.on_reconnect.append(self._note_reconnect)

    @property
    def max_record(self) -> int:
        """The bytes that a job's record may have: one message of the server, less the headers."""
        return self.wire.max_payload - HEADER_BYTES

    @property
    def room(self) -> int:
        """The bytes that a job's arguments, `once` values and result may have together. The rest of
        its record is for names, timeline, error and progress."""
        return max(0, (self.max_record - NAME_BYTES) * 3 // 4)

    async def catch_up(self) -> None:
        """Make sure that later reads show everything that was written before this call. A replica
        may be behind, and a reader may see a part of a batch while it is being stored."""
        await asyncio.sleep(BATCH_VISIBLE_S)
        info = await self.wire.api(f"STREAM.INFO.{self.subjects.stream}")
        last = info.get("state", {}).get("last_seq", 0)
        self.wire.newest_seq = max(self.wire.newest_seq, last)

    def _note_reconnect(self) -> None:
        self.reconnected_at = self.clock.now()
        # A restarted server may have restored removed messages.
        self.nothing_ended_before = 1
