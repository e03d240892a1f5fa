"""A job in a worker's hands, and how it is put out of them."""

from msgspec import Struct

from .codec import Record
from .context import Context


class Ticket(Struct, gc=False):
    """A job in a worker's hands: not claimed yet, and given to another in a few seconds if nothing
    is done about it."""

    reply: bytes
    seq: int
    record: Record


def acknowledge(context: Context, tickets: list[Ticket]) -> None:
    """Empty answers, sent with the next flush. One that is lost lets its ticket come again, to meet
    a home that is newer."""
    context.wire.send(b"".join([b"PUB %b 0\r\n\r\n" % ticket.reply for ticket in tickets]))


def give_back(context: Context, ticket: Ticket, wait_ns: int) -> None:
    """Let it come again after a while."""
    context.wire.say(ticket.reply, b'-NAK {"delay": %d}' % max(1, wait_ns))
