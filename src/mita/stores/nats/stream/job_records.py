"""A job's record and its ticket: what they are, and which of them is valid.

**The record** of a job is the message on the one subject at which all its changes meet. A new job
that is ready has no record yet, only a **ticket**, which a consumer delivers to a worker. If a job
has both, the one with the higher sequence is valid. The record of a job that waits for its time is
a *schedule*: at that time the server itself makes a ticket of it and removes the record, in one
step.

**To make a job ready now** takes two steps: its record is written as a schedule for
`SAFETY_DELAY_MS` later, then a ticket is stored that names the record's sequence. After a crash
between the two the schedule fires, and the job starts `SAFETY_DELAY_MS` late. The server refuses
the ticket if the record has changed in between. If the record is written in an atomic batch with
others, the ticket is in the same batch, right after its record (`JUST_BEFORE_CODE`).

**Nothing is written over a schedule that is about to fire.** The server takes up a due schedule,
and a moment later it stores the ticket and removes the record, whatever was written there in
between (2.15.1 did so in 2 of 900 provoked cases). So within `FIRE_MARGIN_MS` of that time a
transaction waits until the schedule has fired, and a claim ignores the ticket."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from mita.model.job import State
from mita.model.time import SECOND, Moment, Wait
from mita.rules.states import TERMINAL
from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.codec import NO_JOB, NatsJob, pack, pack_within
from mita.stores.nats.context import NatsContext

from .clock import as_stamp
from .decode import decode_job
from .reader import StoredMessage
from .slots import slot_of
from .subjects import Subjects, token

# The server's timer is up to 250 ms late, so it is set earlier, and a claim waits for the rest.
SCHEDULE_LEAD_MS: Wait = 300
# A ticket that waits longer for its claim is made again, behind those that came since. So this is
# as short as the time after which the server delivers the ticket of a lost claim again.
SAFETY_DELAY_MS: Wait = 5 * SECOND
FIRE_MARGIN_MS: Wait = 400
# `record_seq` of a ticket whose record is the message just before it. No record has this sequence:
# the first message of a stream is its anchor.
JUST_BEFORE_CODE = 1
# The server counts nanoseconds in 64 bits, and fires a schedule after the year 2262 at once.
LATEST_SCHEDULE: Moment = 7_258_118_400_000  # the beginning of the year 2200
TOMBSTONE_S = 30  # how long the record of a deleted job overrules its late tickets
SMALL_RECORD_BYTES = 4096  # fits into a message of every server
# The server removes an ended job so much later than asked, so that a prune can count it.
TTL_MARGIN_S = 2

# Headers of the server. A write is refused unless the subject's last message has this sequence.
EXPECT_SEQ = b"Nats-Expected-Last-Subject-Sequence: %d\r\n"
EXPECT_SEQ_AT = EXPECT_SEQ + b"Nats-Expected-Last-Subject-Sequence-Subject: %b\r\n"
ROLLUP = b"Nats-Rollup: sub\r\n"  # removes the earlier messages of the subject
SCHEDULE = b"Nats-Schedule: @at %b\r\nNats-Schedule-Target: %b\r\n" + ROLLUP
TTL = b"Nats-TTL: %ds\r\n"
# Body and headers of the record of a deleted job.
TOMBSTONE = pack(NO_JOB), TTL % TOMBSTONE_S


class LocatedJob(Struct):
    """What is stored for one id. `record` is the valid one of record and ticket; None if there is
    no such job.

    `subject` and `seq` are those of the job's record, `ticket` and `ticket_seq` those of its
    ticket; empty and 0 if there is none. `schedule_at` is when the server makes a ticket of the
    record; 0 if the record is not a schedule. `last_seq` is the highest sequence of all messages
    with this id. `unsent` is the ticket that this transaction stores for a new job."""

    record: NatsJob | None = None
    subject: str = ""
    seq: int = 0
    schedule_at: Moment = 0
    ticket: str = ""
    ticket_seq: int = 0
    last_seq: int = 0
    unsent: str = ""


def _combined(subjects: Subjects, found: Iterable[StoredMessage]) -> LocatedJob:
    """Returns what the messages of one id mean together: the highest sequence is valid."""
    located = LocatedJob()
    for message in sorted(found, key=lambda message: message.seq):
        located.last_seq = message.seq
        is_record = subjects.is_record(message.subject)
        if not is_record and not message.body:
            continue
        record = decode_job(message.body, message.subject)
        if is_record:
            located.subject, located.seq = message.subject, message.seq
            located.schedule_at = record.schedule_at if record.state is State.QUEUED else 0
        else:
            located.ticket, located.ticket_seq = message.subject, message.seq
        located.record = None if record.gone else record
    return located


async def locate(context: NatsContext, ids: Iterable[str]) -> dict[str, LocatedJob]:
    """Returns what is stored for these ids."""
    by_token = {token(id): id for id in ids}
    found: dict[str, list[StoredMessage]] = {id: [] for id in by_token.values()}
    for message in await context.reader.last(
        context.subjects.any_of_id(id) for id in by_token.values()
    ):
        found[by_token[message.subject.rsplit(".", 1)[1]]].append(message)
    return {id: _combined(context.subjects, messages) for id, messages in found.items()}


def record_message(context: NatsContext, record: NatsJob, now: Moment) -> tuple[bytes, bytes]:
    """Returns body and headers of a job's record."""
    if record.state is State.QUEUED:
        ticket = context.subjects.ticket(record.queue, slot_of(record), record.id).encode()
        at = schedule_time(record, now)
        # The ticket that the server makes of it is for no record: the record is gone then.
        body = pack_fitting(context, replace(record, schedule_at=at, record_seq=0))
        return body, SCHEDULE % (as_stamp(at), ticket)
    if record.state in TERMINAL:
        if record.gone or record.expires is None or record.expires <= now:
            return TOMBSTONE
        ttl = whole_seconds(record.expires - now) + TTL_MARGIN_S
        return pack_fitting(context, record), TTL % ttl
    return pack_fitting(context, record), b""


def ticket_message(
    context: NatsContext, record: NatsJob, subject: str, seq: int, now: Moment
) -> OutMessage:
    """Returns the ticket for a record that was written at `now` on this subject, with this
    sequence."""
    ticket = paired_ticket(context, record, now, seq)
    return ticket._replace(headers=EXPECT_SEQ_AT % (seq, subject.encode()))


def paired_ticket(
    context: NatsContext, record: NatsJob, now: Moment, seq: int = JUST_BEFORE_CODE
) -> OutMessage:
    """Returns the ticket for a record that is written at `now`, in the same batch right before
    it."""
    ticket = context.subjects.ticket(record.queue, slot_of(record), record.id)
    paired = replace(record, record_seq=seq, schedule_at=schedule_time(record, now))
    return OutMessage(ticket, pack_fitting(context, paired))


def pack_fitting(context: NatsContext, record: NatsJob) -> bytes:
    """Returns a record with as much of its timeline and error as fits into a message. If even the
    rest is too large, the caller must reject it."""
    body = pack(record)
    return body if len(body) <= SMALL_RECORD_BYTES else pack_within(record, context.max_record)


def fenced(seq: int, headers: bytes = b"") -> bytes:
    """Returns the headers of a message that replaces the one with this sequence on its subject (0:
    there is none). The server refuses it if another message was stored there since.

    A rollup removes the replaced message. A limit of one message per subject would not do: the
    server writes a rollup to its disk, but not what a limit removed. After a crash it would restore
    each message whose successor has been removed.

    Not for tickets: after a rollup of one ticket the server forgets to redeliver others of its
    consumer (2.15.1). Tickets are removed by an acknowledgement, or by their sequence."""
    if not seq or ROLLUP in headers:
        return headers + EXPECT_SEQ % seq
    return headers + ROLLUP + EXPECT_SEQ % seq


def schedule_time(record: NatsJob, now: Moment) -> Moment:
    """Returns when the server makes a ticket of a record that is written at `now`."""
    if is_due_soon(record, now):
        return now + SAFETY_DELAY_MS
    return min(record.due - SCHEDULE_LEAD_MS, LATEST_SCHEDULE)


def is_about_to_fire(schedule_at: Moment, now: Moment) -> bool:
    """True if the server may be firing this schedule right now."""
    return 0 < schedule_at <= now + FIRE_MARGIN_MS


def is_due_soon(record: NatsJob, now: Moment) -> bool:
    """True if the due time is too close for the server's timer. Such a job gets a ticket at once,
    and the claim waits until it is due."""
    return record.due - SCHEDULE_LEAD_MS <= now


def whole_seconds(wait: Wait) -> int:
    """Returns a duration in seconds, rounded up, at least 1."""
    return max(1, -(-wait // SECOND))
