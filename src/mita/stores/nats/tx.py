"""A small optimistic transaction over one stream.

Read records, compute, write. Every write carries the sequence that was read for its subject (0:
there was nothing), so it is refused when somebody was faster; several writes go as one atomic
batch, all or nothing. A refused transaction starts again from its reads. An atomic batch costs the
server milliseconds, so the plain ways of a job do without it."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from mita.errors import StoreError
from mita.model.job import State
from mita.model.time import SECOND, Wait
from mita.rules.states import TERMINAL

from .codec import Record
from .context import Context
from .job_records import (
    EXPECT,
    TTL,
    Place,
    about_to_fire,
    fenced,
    home_message,
    locate,
    soon,
    ticket_message,
)
from .messages import Out, too_big
from .reads import Found
from .removal import remove

FIRES_WITHIN: Wait = 10 * SECOND  # else its server is in trouble, and whoever waits for it is told
TRIES = 50

T = TypeVar("T")


class AboutToFire(Exception):
    """The server is moving this job at the moment: come again when it has."""


class Tx:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.now = context.clock.now()
        self.rings: set[str] = set()
        self.written: dict[str, int] = {}  # after the commit: the sequence of each subject
        self.lines: dict[str, list[Found]] = {}  # those at keys that were read ahead
        self._seen: dict[str, Found] = {}
        self._put: dict[str, tuple[bytes, bytes]] = {}
        self._places: dict[str, Place] = {}
        self._tickets: dict[str, Record] = {}
        self._left_tickets: list[int] = []  # sequences of those that the commit makes void

    # ------------------------------------------------------------ records

    async def see(self, subjects: Iterable[str]) -> None:
        """Read these, unless they are known."""
        missing = [subject for subject in dict.fromkeys(subjects) if subject not in self._seen]
        if not missing:
            return
        self.know(await self.context.reader.last(missing))
        for subject in missing:
            self._seen.setdefault(subject, Found(subject, 0, b""))

    def know(self, found: Iterable[Found]) -> None:
        """These were read, in whatever way: what is written there depends on it."""
        for message in found:
            self._seen.setdefault(message.subject, message)

    async def body(self, subject: str) -> bytes:
        """What stands there, or will when this commits."""
        if subject in self._put:
            return self._put[subject][0]
        await self.see([subject])
        return self._seen[subject].body

    async def sequence(self, subject: str) -> int:
        """The sequence of the message that was there when this transaction read it; 0: none."""
        await self.see([subject])
        return self._seen[subject].seq

    def put(self, subject: str, body: bytes, headers: bytes = b"") -> None:
        """Write there. The subject must have been read, or is new by its nature."""
        self._put[subject] = body, headers

    def remove(self, subject: str) -> None:
        """An empty message that the server itself removes soon: deleting cannot be part of a
        batch."""
        self._put[subject] = b"", TTL % 1

    def puts(self, prefix: str) -> dict[str, bytes]:
        return {
            subject: body for subject, (body, _) in self._put.items() if subject.startswith(prefix)
        }

    # ------------------------------------------------------------ jobs

    async def jobs(self, ids: Iterable[str]) -> list[Place]:
        wanted = list(ids)
        missing = [id for id in dict.fromkeys(wanted) if id not in self._places]
        if missing:
            self._places.update(await locate(self.context, missing))
        return [self._places[id] for id in wanted]

    async def job(self, id: str) -> Place:
        return (await self.jobs([id]))[0]

    def write(self, place: Place, record: Record) -> None:
        """Put a job's new record down. Its indexes are the caller's business (`indexes.change`)."""
        if about_to_fire(place.fires, self.now):
            raise AboutToFire(place.fires)
        place.home = place.home or self.context.subjects.home(record.queue, record.id)
        self._seen.setdefault(place.home, Found(place.home, place.home_seq, b""))
        body, headers = home_message(self.context, record, self.now)
        if len(body) > self.context.most:
            raise too_big(Out(place.home, body), self.context.wire.max_payload)
        self.put(place.home, body, headers)
        self._tickets.pop(place.home, None)
        if record.state is State.QUEUED and soon(record, self.now):
            self._tickets[place.home] = record
        if place.ticket and (record.state in TERMINAL or record.state is State.QUEUED):
            # It would count again once the home record is gone: ended and forgotten, or moved to
            # the line by the server.
            self._left_tickets.append(place.ticket_seq)
        place.record = None if record.gone else record

    # ------------------------------------------------------------ the end

    async def commit(self) -> bool:
        """False: somebody was faster, and nothing was written."""
        if not self._put:
            await self._ring()
            return True
        messages = [
            Out(subject, body, self._headers(subject, headers))
            for subject, (body, headers) in self._put.items()
        ]
        if len(messages) == 1:
            [last] = await self.context.wire.store(messages)
        else:
            last = await self.context.wire.store_together(messages)
        if not last:
            return False
        first = last - len(messages) + 1
        self.written = {message.subject: first + at for at, message in enumerate(messages)}
        await self._queue_up()
        await remove(self.context, self._left_tickets)
        await self._ring()
        return True

    def _headers(self, subject: str, headers: bytes) -> bytes:
        seen = self._seen.get(subject)
        seq = 0 if seen is None else seen.seq
        return (
            headers + EXPECT % seq
            if self.context.subjects.is_ticket(subject)
            else fenced(seq, headers)
        )

    async def _queue_up(self) -> None:
        if not self._tickets:
            return
        await self.context.fail_point("between home and ticket")
        tickets = [
            ticket_message(self.context, record, home, self.written[home], self.now)
            for home, record in self._tickets.items()
        ]
        await self.context.wire.store(tickets)

    async def _ring(self) -> None:
        if self.rings:
            self.context.ring(self.rings)


async def transact(context: Context, act: Callable[[Tx], Awaitable[T]]) -> T:
    """Do it until nobody was faster."""
    started, tried = context.clock.now(), 0
    while tried < TRIES and context.clock.now() < started + FIRES_WITHIN:
        tx = Tx(context)
        try:
            result = await act(tx)
        except AboutToFire:
            await asyncio.sleep(0.02)
            continue
        if await tx.commit():
            return result
        tried += 1
        await asyncio.sleep(random.random() * 0.002 * min(tried, 20))
    raise StoreError("too many others change the same record at the same time", transient=True)
