"""A small optimistic transaction over one stream.

Read records, compute, write. Every write carries the sequence that was read for its subject (0: there was nothing), so it
is refused when somebody was faster; several writes go as one atomic batch, all or nothing. A refused transaction starts
again from its reads. An atomic batch costs the server milliseconds, so the plain ways of a job do without it.

**The home of a job** is the one subject on which all its changes meet. A job without a home record stands as a ticket in
the ready line. Of a home record and a ticket the one with the higher sequence is true. A job that waits for its time has a
*schedule* for a home record: the server itself moves it to the ready line then, and removes the home in the same act.

**Becoming ready now** takes two steps: the home record is written as a schedule for `SAFETY` later, then a ticket is put in
the ready line that names the home's sequence. A crash between them: the schedule fires, and the job is `SAFETY` late. The
ticket is refused if the home has moved on.

**A schedule about to fire is left alone.** The server takes up a due schedule, and a moment later stores its ticket and
removes the home, whatever was written there in between (2.15.1 does so 2 of 900 times when provoked). So nobody writes over
a schedule within `MARGIN` of its moment: a transaction waits until it has fired, a claim leaves the ticket.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from mita.errors import StoreError
from mita.model.job import State
from mita.model.time import SECOND, Moment, Wait
from mita.rules.states import TERMINAL

from .clock import as_stamp
from .context import Context
from .messages import Out
from .reads import Found
from .records import Record, pack, read_record
from .subjects import Subjects, token

LEAD: Wait = 300  # the server's timer is up to 250 ms late, so it is set so much earlier, and claims wait out the rest
SAFETY: Wait = 30 * SECOND
MARGIN: Wait = 400
FIRES_WITHIN: Wait = 10 * SECOND  # else its server is in trouble, and whoever waits for it is told
FORGET = 30  # seconds for which a forgotten job's home turns away its own late tickets
SLACK = 2  # seconds by which the server forgets later than asked, so that a prune can count what it forgets
TRIES = 50
EXPECT = b"Nats-Expected-Last-Subject-Sequence: %d\r\n"
EXPECT_AT = EXPECT + b"Nats-Expected-Last-Subject-Sequence-Subject: %b\r\n"
SCHEDULE = b"Nats-Schedule: @at %b\r\nNats-Schedule-Target: %b\r\nNats-Rollup: sub\r\n"
TTL = b"Nats-TTL: %ds\r\n"
GONE = pack(Record("", "", "", State.CANCELLED, 0, 0, 0, b"", gone=True)), TTL % FORGET  # the home of a forgotten job

T = TypeVar("T")


class Place(Struct):
    """Where a job stands: the record that is true (None: no such job), its home, and its ticket if it has one.

    `fires` is when the server moves the home; 0 when it is no schedule. `last` is the highest sequence of all that there is
    of its id, also of what stands for nothing any more."""

    record: Record | None = None
    home: str = ""
    home_seq: int = 0
    fires: Moment = 0
    ticket: str = ""
    ticket_seq: int = 0
    last: int = 0


def placed(subjects: Subjects, found: Iterable[Found]) -> Place:
    """What the messages found under one id say together: the highest sequence is true."""
    place = Place()
    for message in sorted(found, key=lambda message: message.seq):
        place.last = message.seq
        is_home = subjects.is_home(message.subject)
        if not is_home and not message.body:
            continue
        record = read_record(message.body)
        if is_home:
            place.home, place.home_seq = message.subject, message.seq
            place.fires = record.fires if record.state is State.QUEUED else 0
        else:
            place.ticket, place.ticket_seq = message.subject, message.seq
        place.record = None if record.gone else record
    return place


def home_message(context: Context, record: Record, now: Moment) -> tuple[bytes, bytes]:
    """Body and headers of a home record."""
    if record.state is State.QUEUED:
        ready = context.subjects.ready(record.queue, record.priority, record.id).encode()
        at = fires(record, now)
        return pack(replace(record, fires=at)), SCHEDULE % (as_stamp(at), ready)
    if record.state in TERMINAL:
        if record.gone or record.expires is None or record.expires <= now:
            return GONE
        return pack(record), TTL % (seconds(record.expires - now) + SLACK)
    return pack(record), b""


def fires(record: Record, now: Moment) -> Moment:
    """When the server is to move a job that is written as a schedule now."""
    return now + SAFETY if soon(record, now) else record.due - LEAD


def about_to_fire(moment: Moment, now: Moment) -> bool:
    return 0 < moment <= now + MARGIN


def soon(record: Record, now: Moment) -> bool:
    """Too close to its time for the server's timer: it goes to the ready line, and whoever claims waits out the rest."""
    return record.due - LEAD <= now


def seconds(wait: Wait) -> int:
    return max(1, -(-wait // SECOND))


def ticket_message(context: Context, record: Record, home: str, seq: int, now: Moment) -> Out:
    """A ticket for a home record that was written at `now`."""
    ready = context.subjects.ready(record.queue, record.priority, record.id)
    return Out(ready, pack(replace(record, home=seq, fires=fires(record, now))), EXPECT_AT % (seq, home.encode()))


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

    def put(self, subject: str, body: bytes, headers: bytes = b"") -> None:
        """Write there. The subject must have been read, or is new by its nature."""
        self._put[subject] = body, headers

    def remove(self, subject: str) -> None:
        """An empty message that the server itself removes soon: deleting cannot be part of a batch."""
        self._put[subject] = b"", TTL % 1

    def puts(self, prefix: str) -> dict[str, bytes]:
        return {subject: body for subject, (body, _) in self._put.items() if subject.startswith(prefix)}

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
        self.put(place.home, *home_message(self.context, record, self.now))
        ready = self.context.subjects.ready(record.queue, record.priority, record.id)
        self._tickets.pop(place.home, None)
        if record.state is State.QUEUED and soon(record, self.now):
            self._tickets[place.home] = record
        if place.ticket and (record.state in TERMINAL or (record.state is State.QUEUED and ready != place.ticket)):
            # It would come to life again when the home record is gone, or stand in two lines.
            self._seen.setdefault(place.ticket, Found(place.ticket, place.ticket_seq, b""))
            self.put(place.ticket, b"", TTL % 3600)
        place.record = None if record.gone else record

    # ------------------------------------------------------------ the end

    async def commit(self) -> bool:
        """False: somebody was faster, and nothing was written."""
        if not self._put:
            await self._ring()
            return True
        messages = [
            Out(subject, body, headers + EXPECT % self._expected(subject)) for subject, (body, headers) in self._put.items()
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
        await self._ring()
        return True

    def _expected(self, subject: str) -> int:
        seen = self._seen.get(subject)
        return 0 if seen is None else seen.seq

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


async def locate(context: Context, ids: Iterable[str]) -> dict[str, Place]:
    """Where jobs of these ids stand, found by their id alone."""
    by_token = {token(id): id for id in ids}
    found: dict[str, list[Found]] = {id: [] for id in by_token.values()}
    for message in await context.reader.last(context.subjects.anywhere(id) for id in by_token.values()):
        found[by_token[message.subject.rsplit(".", 1)[1]]].append(message)
    return {id: placed(context.subjects, messages) for id, messages in found.items()}


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
