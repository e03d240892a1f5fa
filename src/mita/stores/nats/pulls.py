"""Pulling tickets out of a ready line."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from mita.model.job import State
from mita.model.time import Wait

from .aside import set_aside
from .client.link import Hear
from .client.wire import PATIENCE, Wire
from .context import Context, Line
from .reading import read_record
from .tickets import Ticket

# nothing there, nothing came in time, and a connection that was lost
EMPTY = (b"404", b"408", b"000")
# seconds for which a line without a leader is asked again, before the claim goes on without it
ELECTION = 0.5
A_MOMENT = 0.005


async def pull(
    context: Context, lines: Sequence[Line], most: int, wait: Wait = 0
) -> tuple[list[Ticket], int]:
    """What is ready now in these lines, up to `most` of each, and how many places that took: some
    tickets are of jobs taken out of line. If there is nothing, wait so long for something.

    A line that is choosing its leader (on a cluster, for a moment after a server was lost) is not
    an empty one: nobody answers for it. It is asked again, and if it takes too long it is noted as
    one to come back to soon."""
    until = asyncio.get_running_loop().time() + ELECTION
    while True:
        hand = await _pull(context, lines, most, wait)
        if hand.unreadable:
            await set_aside(
                context,
                [ticket for ticket, _ in hand.unreadable],
                [body for _, body in hand.unreadable],
            )
        context.leaderless.difference_update(lines)
        if not hand.leaderless:
            return hand.tickets, hand.delivered
        if hand.delivered or asyncio.get_running_loop().time() > until:
            context.leaderless.update(
                line
                for line in lines
                if context.subjects.consumer(*line).encode() in hand.leaderless
            )
            return hand.tickets, hand.delivered
        await asyncio.sleep(A_MOMENT)


async def _pull(context: Context, lines: Sequence[Line], most: int, wait: Wait) -> "Hand":
    wire, subjects = context.wire, context.subjects
    hand = Hand(wire, {subjects.consumer(*line).encode(): most for line in lines})
    expires = b',"expires":%d' % (wait * 1_000_000) if wait else b""
    question = b'{"batch":%d,"no_wait":true%b}' % (most, expires)
    wire.pulling = hand.deliver
    groups = []
    try:
        for line in lines:
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{subjects.stream}.{subjects.consumer(*line)}"
            groups.append(
                await wire.stream(subject, question, hand.status(subjects.consumer(*line).encode()))
            )
        with suppress(TimeoutError):  # what did come is claimed all the same
            async with asyncio.timeout(PATIENCE):
                await hand.full
    finally:
        for group in groups:
            wire.silence(group)
        wire.pulling = None
    return hand


class Hand:
    """What the lines give, until each has given all it was asked for or said that it has no
    more."""

    def __init__(self, wire: Wire, room: dict[bytes, int]) -> None:
        self.tickets: list[Ticket] = []
        self.unreadable: list[tuple[Ticket, bytes]] = []
        self.delivered = 0
        self.leaderless: set[bytes] = set()
        self.full: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wire = wire
        self._room = room

    def deliver(self, subject: bytes, reply: bytes, data: bytes, _: bytes | None) -> None:
        consumer, sequence = _origin(reply)
        self.delivered += 1
        record = read_record(data, subject.decode())
        if record.gone:  # a job that was taken out of the line
            self._wire.say(reply, b"")
        elif record.state is State.QUEUED:
            if sequence > self._wire.seen:
                self._wire.seen = sequence
            self.tickets.append(Ticket(reply, sequence, record))
        else:
            self.unreadable.append((Ticket(reply, sequence, record), data))
        left = self._room.get(consumer, 0) - 1
        if left > 0:
            self._room[consumer] = left
        else:
            self._done(consumer)

    def status(self, consumer: bytes) -> Hear:
        def told(_: bytes, __: bytes, ___: bytes, headers: bytes | None) -> None:
            if (headers or b"")[9:12] not in EMPTY:
                self.leaderless.add(consumer)
            self._done(consumer)

        return told

    def _done(self, consumer: bytes) -> None:
        self._room.pop(consumer, None)
        if not self._room and not self.full.done():
            self.full.set_result(None)


def _origin(reply: bytes) -> tuple[bytes, int]:
    """Consumer and sequence: `$JS.ACK.stream.CONSUMER.delivered.SEQUENCE…`, two tokens later when
    there are domains."""
    if reply.count(b".") == 8:
        _, _, _, consumer, _, sequence, _ = reply.split(b".", 6)
    else:
        _, _, _, _, _, consumer, _, sequence, _ = reply.split(b".", 8)
    return consumer, int(sequence)
