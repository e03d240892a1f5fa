"""What the verbs of one open store have in common."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias

from mita.model.time import Moment

from .client.wire import Wire
from .clock import ServerClock
from .notify import Notifier
from .reads import Reader
from .subjects import Subjects

HEADERS = 2048  # bytes of a message that are left for headers: they name two subjects at most
KEYS = 2048  # bytes of a record that are left for the names and keys of a job
STORED_WITHIN = 0.2  # seconds; a batch of a thousand messages takes a tenth of that
Line: TypeAlias = tuple[str, int]  # queue and priority


async def _nothing(_: str) -> None:
    return None


class Context:
    def __init__(
        self, wire: Wire, subjects: Subjects, clock: ServerClock, *, replicated: bool
    ) -> None:
        self.wire = wire
        self.subjects = subjects
        self.clock = clock
        self.replicated = replicated
        self.reader = Reader(wire, subjects.stream, subjects.anchor if replicated else None)
        self.bell = Notifier(wire, subjects)
        # tests die here, between two steps of a verb
        self.fail_point: Callable[[str], Awaitable[None]] = _nothing
        self.lines: set[Line] = set()  # those for which there is a consumer
        # the sequence before which no home is one of a job that has ended
        self.nothing_ended_before = 1
        # those for which nobody answered when they were last asked
        self.leaderless: set[Line] = set()
        self.returned: Moment = 0  # when a lost connection was last made again
        wire.reconnected.append(self._note_return)

    @property
    def most(self) -> int:
        """How many bytes the record of a job may have: what the server takes in one message, less
        the headers."""
        return self.wire.max_payload - HEADERS

    @property
    def room(self) -> int:
        """And how many of them its arguments, memos and result may take together. The rest is for
        the keys and the story."""
        return max(0, (self.most - KEYS) * 3 // 4)

    async def catch_up(self) -> None:
        """From here on reads show all that was written before this call, also where it was written
        together with something that was read earlier. A replica may be behind, and a batch is not
        seen as a whole while it is being stored."""
        await asyncio.sleep(STORED_WITHIN)
        info = await self.wire.api(f"STREAM.INFO.{self.subjects.stream}")
        self.wire.seen = max(self.wire.seen, info.get("state", {}).get("last_seq", 0))

    def ring(self, topics: Collection[str]) -> None:
        self.bell.ring(topics)

    def _note_return(self) -> None:
        self.returned = self.clock.now()
        # a server that was restarted may have restored what was removed
        self.nothing_ended_before = 1
