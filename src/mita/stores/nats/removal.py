"""Taking single messages out of the stream, by their sequence."""

from collections.abc import Iterable

from .context import Context
from .job_records import locate
from .messages import Out


def _removal(context: Context, seq: int) -> Out:
    return Out(
        f"$JS.API.STREAM.MSG.DELETE.{context.subjects.stream}", b'{"seq":%d,"no_erase":true}' % seq
    )


async def remove(context: Context, seqs: Iterable[int]) -> int:
    """Gives how many of them were there."""
    answers = await context.wire.ask([_removal(context, seq) for seq in seqs])
    return sum(b'"success":true' in answer for answer in answers)


def remove_some_time(context: Context, seq: int) -> None:
    """For what is in nobody's way: not answered, and found again if it is lost."""
    removal = _removal(context, seq)
    context.wire.say(removal.subject, removal.body)


async def remove_left_tickets(context: Context, ids: Iterable[str]) -> None:
    """An acknowledgement is not answered: it may be lost, with a worker that died or with its
    connection. The ticket then comes again, whenever somebody next looks, and the home that turns
    it away is not kept for ever."""
    places = (await locate(context, ids)).values()
    await remove(
        context, [place.ticket_seq for place in places if 0 < place.ticket_seq < place.home_seq]
    )
