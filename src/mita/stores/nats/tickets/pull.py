"""Pulling tickets from consumers."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import NamedTuple

from msgspec.structs import replace

from mita.model.job import State
from mita.model.time import Wait
from mita.stores.nats.client.link import MessageHandler
from mita.stores.nats.client.wire import ANSWER_TIMEOUT_S, NatsWire
from mita.stores.nats.codec import NatsJob
from mita.stores.nats.context import NatsContext
from mita.stores.nats.maintenance import set_aside
from mita.stores.nats.stream.decode import decode_job
from mita.stores.nats.stream.job_records import JUST_BEFORE_CODE

from .claim_memory import QueuePriority
from .ticket import Ticket

# Status codes for: nothing there, nothing came in time, and (ours) the connection was lost.
EMPTY_STATUS = (b"404", b"408", b"000")
MADE_BY_SERVER = b"Nats-Scheduler:"  # a header of each message that the server made of a schedule
# How long a consumer without a leader is asked again, before the claim goes on without it.
ELECTION_WAIT_S = 0.5
ELECTION_POLL_S = 0.005


class Pulled(NamedTuple):
    """What consumers delivered: tickets of jobs, how many messages that were (some are of deleted
    jobs), wake tickets, and how many tickets were wanted of each."""

    tickets: list[Ticket]
    delivered: int
    wakes: list[Ticket]
    wanted: Mapping[QueuePriority, int] = MappingProxyType({})


async def pull(context: NatsContext, wanted: Mapping[QueuePriority, int], wait: Wait = 0) -> Pulled:
    """Returns the tickets that are ready in these queues and slots, up to so many of each. If
    nothing is ready, wait up to `wait` for something.

    After a server of a cluster was lost, a consumer has no leader for a moment and does not answer.
    It is asked again. If that takes too long, it is noted in `context.leaderless`."""
    until = asyncio.get_running_loop().time() + ELECTION_WAIT_S
    while True:
        pulled = await _pull_once(context, wanted, wait)
        if pulled.unreadable:
            await set_aside(context, pulled.unreadable)
        context.leaderless.difference_update(wanted)
        if not pulled.leaderless:
            return Pulled(pulled.tickets, pulled.delivered, pulled.wakes, wanted)
        if pulled.delivered or asyncio.get_running_loop().time() > until:
            context.leaderless.update(
                source
                for source in wanted
                if context.subjects.consumer(*source).encode() in pulled.leaderless
            )
            return Pulled(pulled.tickets, pulled.delivered, pulled.wakes, wanted)
        await asyncio.sleep(ELECTION_POLL_S)


async def _pull_once(
    context: NatsContext, wanted: Mapping[QueuePriority, int], wait: Wait
) -> "PulledTickets":
    wire, subjects = context.wire, context.subjects
    consumers = {subjects.consumer(*source): most for source, most in wanted.items()}
    pulled = PulledTickets(wire, {one.encode(): most for one, most in consumers.items()})
    expires = b',"expires":%d' % (wait * 1_000_000) if wait else b""
    wire.pull_handler = pulled.deliver
    groups = []
    try:
        for consumer, most in consumers.items():
            request = b'{"batch":%d,"no_wait":true%b}' % (most, expires)
            subject = f"$JS.API.CONSUMER.MSG.NEXT.{subjects.stream}.{consumer}"
            on_status = pulled.status_handler(consumer.encode())
            groups.append(await wire.request_stream(subject, request, on_status))
        with suppress(TimeoutError):  # what was delivered is claimed all the same
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                await pulled.complete
    finally:
        for group in groups:
            wire.end_stream(group)
        wire.pull_handler = None
    return pulled


class PulledTickets:
    """Collects what consumers deliver, until each has delivered all that was asked for or said that
    it has no more. `wanted` says how much is asked of each consumer."""

    def __init__(self, wire: NatsWire, wanted: dict[bytes, int]) -> None:
        self.tickets: list[Ticket] = []
        self.unreadable: list[tuple[Ticket, bytes]] = []  # each with its body
        self.wakes: list[Ticket] = []
        self.delivered = 0
        self.leaderless: set[bytes] = set()
        self.complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._wire = wire
        self._wanted = wanted

    def deliver(self, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        """Take one delivered message."""
        consumer, sequence = _origin(reply)
        self.delivered += 1
        record = decode_job(data, subject.decode())
        if record.gone and record.resource is not None:
            self.delivered -= 1
            self.wakes.append(Ticket(reply, sequence, record))
        elif record.gone:  # its job was deleted
            self._wire.send_message(reply, b"")
        elif record.state is State.QUEUED:
            if sequence > self._wire.newest_seq:
                self._wire.newest_seq = sequence
            if record.record_seq:
                record = replace(record, record_seq=_record_seq(record, sequence, headers or b""))
            self.tickets.append(Ticket(reply, sequence, record))
        else:
            self.unreadable.append((Ticket(reply, sequence, record), data))
        left = self._wanted.get(consumer, 0) - 1
        if left > 0:
            self._wanted[consumer] = left
        else:
            self._end(consumer)

    def status_handler(self, consumer: bytes) -> MessageHandler:
        """Returns the handler for a status message of this consumer, which ends its delivery."""

        def on_status(_: bytes, __: bytes, ___: bytes, headers: bytes | None) -> None:
            if (headers or b"")[9:12] not in EMPTY_STATUS:
                self.leaderless.add(consumer)
            self._end(consumer)

        return on_status

    def _end(self, consumer: bytes) -> None:
        self._wanted.pop(consumer, None)
        if not self._wanted and not self.complete.done():
            self.complete.set_result(None)


def _record_seq(record: NatsJob, ticket_seq: int, headers: bytes) -> int:
    """Returns the sequence of the record for which a ticket was made; 0: for none. A ticket that
    the server made of a record is all that is left of its job, whatever it says. Before 0.2.0 was
    released, a signal to a ready job left the sequence of an older record in it."""
    if MADE_BY_SERVER in headers:
        return 0
    return ticket_seq - 1 if record.record_seq == JUST_BEFORE_CODE else record.record_seq


def _origin(reply: bytes) -> tuple[bytes, int]:
    """Returns consumer and sequence from the reply subject of a delivery,
    `$JS.ACK.stream.CONSUMER.delivered.SEQUENCE…`; with domains both are two tokens later."""
    if reply.count(b".") == 8:
        _, _, _, consumer, _, sequence, _ = reply.split(b".", 6)
    else:
        _, _, _, _, _, consumer, _, sequence, _ = reply.split(b".", 8)
    return consumer, int(sequence)
