"""Removing single messages from the stream, by their sequence."""

from collections.abc import Iterable

from mita.stores.nats.client.messages import removal
from mita.stores.nats.context import NatsContext

from .job_records import locate


async def remove(context: NatsContext, seqs: Iterable[int]) -> int:
    """Remove these messages. Returns how many of them were there."""
    answers = await context.wire.request_all(
        [removal(context.subjects.stream, seq) for seq in seqs]
    )
    return sum(b'"success":true' in answer for answer in answers)


def remove_unconfirmed(context: NatsContext, seq: int) -> None:
    """Ask for the removal of a message and do not wait. For messages that do no harm and are found
    again if the request is lost."""
    request = removal(context.subjects.stream, seq)
    context.wire.send_message(request.subject, request.body)


async def remove_stale_tickets(context: NatsContext, ids: Iterable[str]) -> None:
    """Remove tickets whose job has a newer record. The server does not confirm acknowledgements, so
    one may be lost with a worker or a connection. The ticket is then delivered again, and the
    record that overrules it is not kept for ever."""
    found = (await locate(context, ids)).values()
    await remove(context, [one.ticket_seq for one in found if 0 < one.ticket_seq < one.seq])
