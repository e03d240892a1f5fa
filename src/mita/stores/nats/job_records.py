"""Where a job stands, and what is written there.

**The home of a job** is the one subject on which all its changes meet. A job without a home record
stands as a ticket in the ready line. Of a home record and a ticket the one with the higher sequence
is true. A job that waits for its time has a *schedule* for a home record: the server itself moves
it to the ready line then, and removes the home in the same act.

**Becoming ready now** takes two steps: the home record is written as a schedule for `SAFETY` later,
then a ticket is put in the ready line that names the home's sequence. A crash between them: the
schedule fires, and the job is `SAFETY` late. The ticket is refused if the home has moved on.

**A schedule about to fire is left alone.** The server takes up a due schedule, and a moment later
stores its ticket and removes the home, whatever was written there in between (2.15.1 does so 2 of
900 times when provoked). So nobody writes over a schedule within `MARGIN` of its moment: a
transaction waits until it has fired, a claim leaves the ticket."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from mita.model.job import State
from mita.model.time import SECOND, Moment, Wait
from mita.rules.states import TERMINAL

from .clock import as_stamp
from .codec import Record, cut, pack
from .context import Context
from .messages import Out
from .reading import read_record
from .reads import Found
from .subjects import Subjects, token

# the server's timer is up to 250 ms late, so it is set so much earlier, and claims wait out the
# rest
LEAD: Wait = 300
SAFETY: Wait = 30 * SECOND
MARGIN: Wait = 400
FORGET = 30  # seconds for which a forgotten job's home turns away its own late tickets
ALWAYS_FITS = 4096  # bytes of a record, whatever the server's max_payload
# seconds by which the server forgets later than asked, so that a prune can count what it forgets
SLACK = 2
EXPECT = b"Nats-Expected-Last-Subject-Sequence: %d\r\n"
EXPECT_AT = EXPECT + b"Nats-Expected-Last-Subject-Sequence-Subject: %b\r\n"
ROLLUP = b"Nats-Rollup: sub\r\n"
SCHEDULE = b"Nats-Schedule: @at %b\r\nNats-Schedule-Target: %b\r\n" + ROLLUP
TTL = b"Nats-TTL: %ds\r\n"
# the home of a forgotten job
GONE = pack(Record("", "", "", State.CANCELLED, 0, 0, 0, b"", gone=True)), TTL % FORGET


class Place(Struct):
    """Where a job stands: the record that is true (None: no such job), its home, and its ticket if
    it has one.

    `fires` is when the server moves the home; 0 when it is no schedule. `last` is the highest
    sequence of all that there is of its id, also of what stands for nothing any more."""

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
        record = read_record(message.body, message.subject)
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
        return fitted(context, replace(record, fires=at)), SCHEDULE % (as_stamp(at), ready)
    if record.state in TERMINAL:
        if record.gone or record.expires is None or record.expires <= now:
            return GONE
        return fitted(context, record), TTL % (seconds(record.expires - now) + SLACK)
    return fitted(context, record), b""


def fitted(context: Context, record: Record) -> bytes:
    """A record with as much of its story as fits into a message. What is too large even so is for
    the caller to reject."""
    body = pack(record)
    return body if len(body) <= ALWAYS_FITS else cut(record, context.most)


def fenced(seq: int, headers: bytes = b"") -> bytes:
    """The headers of a message that replaces the one of this sequence on its subject (0: there is
    none), or is refused.

    What it replaces is removed by a rollup, and not by a limit of one message per subject: the
    server writes a rollup to its disk, but not what a limit removed. After a crash it would restore
    each message whose successor has been removed.

    Not for tickets: with a rollup of one of them the server forgets to deliver others of its line
    again (2.15.1). They are removed by an acknowledgement, or by their sequence."""
    if not seq or ROLLUP in headers:
        return headers + EXPECT % seq
    return headers + ROLLUP + EXPECT % seq


def fires(record: Record, now: Moment) -> Moment:
    """When the server is to move a job that is written as a schedule now."""
    return now + SAFETY if soon(record, now) else record.due - LEAD


def about_to_fire(moment: Moment, now: Moment) -> bool:
    return 0 < moment <= now + MARGIN


def soon(record: Record, now: Moment) -> bool:
    """Too close to its time for the server's timer: it goes to the ready line, and whoever claims
    waits out the rest."""
    return record.due - LEAD <= now


def seconds(wait: Wait) -> int:
    return max(1, -(-wait // SECOND))


def ticket_message(context: Context, record: Record, home: str, seq: int, now: Moment) -> Out:
    """A ticket for a home record that was written at `now`."""
    ready = context.subjects.ready(record.queue, record.priority, record.id)
    body = fitted(context, replace(record, home=seq, fires=fires(record, now)))
    return Out(ready, body, EXPECT_AT % (seq, home.encode()))


async def locate(context: Context, ids: Iterable[str]) -> dict[str, Place]:
    """Where jobs of these ids stand, found by their id alone."""
    by_token = {token(id): id for id in ids}
    found: dict[str, list[Found]] = {id: [] for id in by_token.values()}
    for message in await context.reader.last(
        context.subjects.anywhere(id) for id in by_token.values()
    ):
        found[by_token[message.subject.rsplit(".", 1)[1]]].append(message)
    return {id: placed(context.subjects, messages) for id, messages in found.items()}
