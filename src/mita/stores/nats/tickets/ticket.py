"""A ticket that was delivered to this store, and the two answers to it."""

from msgspec import Struct

from mita.stores.nats.codec import NatsJob
from mita.stores.nats.context import NatsContext

LONGEST_GIVE_BACK_S = 86_400  # the server itself could wait for 292 years


class Ticket(Struct, gc=False):
    """A ready job that was delivered to this store but is not claimed yet. Without an answer the
    server delivers it to another store after a few seconds."""

    reply: bytes
    seq: int
    record: NatsJob


def acknowledge(context: NatsContext, tickets: list[Ticket]) -> None:
    """Remove these tickets, with the next flush. If that is lost, a ticket is delivered again and
    refused, because the job's record is newer."""
    context.wire.send(b"".join([b"PUB %b 0\r\n\r\n" % ticket.reply for ticket in tickets]))


def give_back(context: NatsContext, ticket: Ticket, delay_ns: int) -> None:
    """Have the ticket delivered again after this delay, but within a day, to any store."""
    delay_ns = min(max(1, delay_ns), LONGEST_GIVE_BACK_S * 1_000_000_000)
    context.wire.send_message(ticket.reply, b'-NAK {"delay": %d}' % delay_ns)


def give_back_all(context: NatsContext, tickets: list[Ticket]) -> None:
    """Have these tickets delivered again at once."""
    for ticket in tickets:
        give_back(context, ticket, 1)
