"""The tally: how many job records each queue has in each state, so that they are not all read.

The stream is divided into *segments*: ranges of sequences with some thousands of records each. The
tally has the counts of each segment, and how many messages were left in it when it was counted. A
message never changes and never comes back, it only goes. So the counts of segments are right as
long as the server still counts as many messages in their range, which it does much faster than it
could read them. What has changed is read again, some of it at a time, and so is the end of the
stream, which no segment covers.

The tally decides nothing. A lost or unreadable one is counted again from the beginning, and every
segment is read again after `TRUST_MS`, whatever the server counts. Tickets are not in it: the
server counts them for its consumers (`counts`)."""

import asyncio
import sys
from collections.abc import Iterable
from itertools import pairwise

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mita.model.record import DisplayState
from mita.model.time import HOUR, MINUTE, SECOND, Moment, Wait
from mita.rules.matching import shown_as
from mita.rules.readable import BAD
from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.codec import pack
from mita.stores.nats.context import NatsContext

from .decode import decode_job_head
from .job_records import fenced
from .reader import StoredMessage

SEGMENT_RECORDS = 20_000
# Heartbeats, claim lists and the tally itself are written at the end of the stream and leave it
# soon. So the segments there stay small until that is over: to read one again costs little.
NEW_MS: Wait = 10 * MINUTE
NEW_SEGMENT_RECORDS = 1_000
TRUST_MS: Wait = HOUR
PATROL_EVERY_MS: Wait = 10 * SECOND
PATROL_RECORDS = 20_000  # that one patrol reads at the most
ASKED_RECORDS = 2_000  # that are read for somebody who asks for counts
OLD_COUNT_MS: Wait = MINUTE  # for somebody who would see older counts, more is read
# The states that a record may have. A ready job is counted by its ticket.
COUNTED_STATES = tuple(state for state in DisplayState if state is not DisplayState.READY)


class TallySegment(Struct, array_like=True, frozen=True):
    """The sequences from `first` to before `end`: how many `messages` of any kind were there, how
    many of them were `records`, when these were read, and how many each queue has in each of
    `COUNTED_STATES`."""

    first: int
    end: int
    messages: int
    records: int
    at: Moment
    counts: dict[str, list[int]]


class Tally(Struct, array_like=True, frozen=True):
    """All segments, one right after the other. `at` is when the last of them reached the end of the
    stream; 0: never yet."""

    at: Moment = 0
    segments: tuple[TallySegment, ...] = ()

    @property
    def end(self) -> int:
        """The first sequence that is in no segment."""
        return self.segments[-1].end if self.segments else 1

    def counts(self) -> dict[str, dict[str, int]]:
        """Returns the counts by queue and state."""
        total: dict[str, list[int]] = {}
        for segment in self.segments:
            for queue, numbers in segment.counts.items():
                total[queue] = _sum(total.get(queue), numbers)
        return {
            queue: dict(zip(map(str, COUNTED_STATES), numbers, strict=True))
            for queue, numbers in total.items()
        }


class RecountedTally(Struct, frozen=True):
    """A tally that was compared with the stream. `counted` is since when its counts may be out of
    date (None: they are not), `read` how many records were read for it."""

    tally: Tally
    counted: Moment | None
    read: int


_decode = msgspec.msgpack.Decoder(Tally).decode


# ---------------------------------------------------------------- the stored tally


async def asked_tally(context: NatsContext) -> RecountedTally:
    """Returns the tally for somebody who waits for it. If there is none yet, everything is read."""
    tally, seq = await _stored(context)
    found = await recount(context, tally, ASKED_RECORDS)
    if found.counted is not None and found.counted < context.clock.now() - OLD_COUNT_MS:
        most = PATROL_RECORDS if tally.at else None
        again = await recount(context, found.tally, most)
        found = replace(again, read=again.read + found.read)
    if found.read > ASKED_RECORDS // 2:
        await _store(context, found.tally, seq)
    return found


async def patrol(context: NatsContext) -> None:
    """Count again some of what has changed, unless another store has done so a moment ago."""
    tally, seq = await _stored(context)
    now = context.clock.now()
    if max((segment.at for segment in tally.segments), default=0) > now - PATROL_EVERY_MS:
        return
    found = await recount(context, tally, PATROL_RECORDS)
    if found.read:
        await _store(context, found.tally, seq)


async def _stored(context: NatsContext) -> tuple[Tally, int]:
    """Returns the stored tally and its sequence; an empty one if it cannot be read."""
    message = await context.reader.one(context.subjects.tally)
    if message is None:
        return Tally(), 0
    try:
        tally = _decode(message.body)
    except BAD:
        return Tally(), message.seq
    fits = all(one.end == other.first for one, other in pairwise(tally.segments))
    lengths = {len(one) for segment in tally.segments for one in segment.counts.values()}
    right = fits and lengths <= {len(COUNTED_STATES)}
    return tally if right else Tally(), message.seq


async def _store(context: NatsContext, tally: Tally, seq: int) -> None:
    """Store a tally, unless another store was faster, or it is too large for a message: then it is
    counted each time."""
    body = pack(tally)
    if len(body) <= context.max_record:
        await context.wire.store([OutMessage(context.subjects.tally, body, fenced(seq))])


# ---------------------------------------------------------------- counting


async def recount(context: NatsContext, tally: Tally, most: int | None) -> RecountedTally:
    """Compare a tally with the stream, and read again what has changed: at most `most` records,
    None: all. The segments that were read longest ago come first."""
    now, left = context.clock.now(), sys.maxsize if most is None else most
    budget = left
    segments = list(tally.segments)
    changed = await _changed(context, tally)
    old = {at for at, one in enumerate(segments) if one.records and one.at < now - TRUST_MS}
    out_of_date: list[Moment] = []
    for at in sorted(changed | old, key=lambda at: segments[at].at):
        if segments[at].records <= left:
            left -= segments[at].records
            segments[at] = await _counted(context, segments[at], now)
        elif at in changed:
            out_of_date.append(segments[at].at)
    new, complete = await _end_of_stream(context, tally.end, left)
    left -= sum(segment.records for segment in new)
    if not complete:
        out_of_date.append(tally.at)
    found = Tally(now if complete else tally.at, tuple(_merged([*segments, *new], now)))
    return RecountedTally(found, min(out_of_date, default=None), budget - left)


async def _changed(context: NatsContext, tally: Tally) -> set[int]:
    """Returns which segments may have changed, by their position. Most changes are near the end, so
    the last segment is compared first, then the two before it, then four, until all others together
    have as many messages as they had. Messages that are stored meanwhile make a segment look
    changed that is not."""
    messages = [segment.messages for segment in tally.segments]
    changed: set[int] = set()
    (total, _), after = await asyncio.gather(_size(context), context.reader.left(tally.end))
    end, length = len(messages), 1
    while end and total - after != sum(messages[:end]):
        start = max(0, end - length)
        before = await context.reader.left(tally.segments[start].first) if start else total
        if before - after != sum(messages[start:end]):
            changed.update(at for at in range(start, end) if tally.segments[at].records)
        after, end, length = before, start, 2 * length
    return changed


async def _counted(context: NatsContext, old: TallySegment, now: Moment) -> TallySegment:
    """Returns a segment as it is now. The messages are counted first: what goes while the records
    are read makes the segment look changed the next time."""
    first, after = await asyncio.gather(
        context.reader.left(old.first), context.reader.left(old.end)
    )
    records: list[StoredMessage] = []
    start, left = old.first, 1
    while left and start < old.end and len(records) < old.records:
        found, left = await context.reader.slice(
            context.subjects.records(), start, old.records - len(records)
        )
        records += [message for message in found if message.seq < old.end]
        start = found[-1].seq + 1 if found else old.end
    counts = _counts(records, now)
    return TallySegment(old.first, old.end, first - after, len(records), now, counts)


async def _end_of_stream(
    context: NatsContext, start: int, most: int
) -> tuple[list[TallySegment], bool]:
    """Returns the segments from `start` on, with at most `most` records; and whether that is
    all."""
    segments: list[TallySegment] = []
    left = await context.reader.left(start)
    (_, last), now = await _size(context), context.clock.now()
    end = last + 1
    while start < end:
        if most <= 0:
            return segments, False
        found, more = await context.reader.slice(
            context.subjects.records(), start, min(SEGMENT_RECORDS, most)
        )
        found = [message for message in found if message.seq < end]
        until = found[-1].seq + 1 if found and more else end
        after = await context.reader.left(until)
        counts = _counts(found, now)
        segments.append(TallySegment(start, until, left - after, len(found), now, counts))
        start, left, most = until, after, most - len(found)
    return segments, True


def _counts(records: Iterable[StoredMessage], now: Moment) -> dict[str, list[int]]:
    """Returns how many of these records each queue has in each of `COUNTED_STATES`. The record of a
    job that is due only stands by for its ticket."""
    counts: dict[str, list[int]] = {}
    for message in records:
        if not message.body:
            continue
        head = decode_job_head(message.body, message.subject)
        shown = shown_as(head.state, head.due, now)
        if head.id and shown is not DisplayState.READY:
            numbers = counts.setdefault(head.queue, [0] * len(COUNTED_STATES))
            numbers[COUNTED_STATES.index(shown)] += 1
    return counts


def _merged(segments: Iterable[TallySegment], now: Moment) -> list[TallySegment]:
    """Returns the same segments, with small neighbours as one. New segments are not joined with
    older ones."""
    merged: list[TallySegment] = []
    for segment in segments:
        is_new = segment.at > now - NEW_MS
        most = NEW_SEGMENT_RECORDS if is_new else SEGMENT_RECORDS // 2
        before = merged[-1] if merged else None
        if (
            before is not None
            and before.records + segment.records <= most
            and (before.at > now - NEW_MS) is is_new
        ):
            merged[-1] = _joined(before, segment)
        else:
            merged.append(segment)
    return merged


def _joined(one: TallySegment, other: TallySegment) -> TallySegment:
    counts = {
        queue: _sum(one.counts.get(queue), other.counts.get(queue))
        for queue in {**one.counts, **other.counts}
    }
    messages, records = one.messages + other.messages, one.records + other.records
    return TallySegment(one.first, other.end, messages, records, min(one.at, other.at), counts)


def _sum(one: list[int] | None, other: list[int] | None) -> list[int]:
    nothing = [0] * len(COUNTED_STATES)
    return [a + b for a, b in zip(one or nothing, other or nothing, strict=True)]


async def _size(context: NatsContext) -> tuple[int, int]:
    """Returns how many messages the stream has, and the sequence of the last."""
    state = (await context.wire.api(f"STREAM.INFO.{context.subjects.stream}")).get("state", {})
    return state.get("messages", 0), state.get("last_seq", 0)
