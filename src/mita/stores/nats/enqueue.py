"""Taking jobs in.

A plain job is one message: a ticket in the ready line, or a schedule at its home. The server itself
refuses it if there is anything of that id already, so sending it twice makes one job. A job with a
unique key is written together with the key's reservation, in one atomic batch. No step is left to a
crash: what was not acknowledged is whole or not there."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from msgspec.structs import replace

from mita.model.job import NewJob, Receipt

from . import indexes, schema
from .codec import Record, as_record, pack
from .context import Context
from .errors import NoAnswer
from .job_records import EXPECT_AT, Place, home_message, locate, soon
from .messages import Out
from .tx import Tx, transact

CHUNK = 1000
# jobs with unique keys in one batch: each is two or three messages of the thousand a batch may have
TOGETHER = 200


async def enqueue(context: Context, jobs: Sequence[NewJob]) -> list[Receipt]:
    receipts: list[Receipt] = []
    for at in range(0, len(jobs), CHUNK):
        receipts += await _take_in(context, jobs[at : at + CHUNK])
    return receipts


async def _take_in(context: Context, jobs: Sequence[NewJob]) -> list[Receipt]:
    """Ids are new but for those of a call that is made again: so a plain job is sent at once, and
    looked for if it was refused or if nobody answered."""
    first: dict[str, NewJob] = {}
    for job in jobs:
        first.setdefault(job.id, job)
    now = context.clock.now()
    records = [
        as_record(job, now, age)
        for job, age in zip(first.values(), context.clock.age(len(first)), strict=True)
    ]
    created: set[str] = set()
    with suppress(NoAnswer):
        created = await _put_plain(
            context, [record for record in records if _needs_no_look(context, record)]
        )
    earlier: dict[str, str] = {}
    if doubtful := [record for record in records if record.id not in created]:
        earlier = await _take_in_with_care(context, doubtful)
        created |= {id for id, holder in earlier.items() if id == holder}
    if later := {
        record.queue for record in records if record.id in created and not soon(record, now)
    }:
        context.ring(later)
    return _receipts(jobs, created, earlier)


def _needs_no_look(context: Context, record: Record) -> bool:
    return record.unique is None and (record.queue, record.priority) in context.lines


async def _take_in_with_care(context: Context, records: Sequence[Record]) -> dict[str, str]:
    """For the id of each that was let in its own, or that of the job that has its unique key."""
    places = await locate(context, [record.id for record in records])
    fresh = [record for record in records if places[record.id].record is None]
    await open_lines(context, {(record.queue, record.priority) for record in fresh})
    plain = await _put_plain(context, [record for record in fresh if record.unique is None], places)
    unique = [record for record in fresh if record.unique is not None]
    holders = {id: id for id in plain} | {
        record.id: record.id for record in records if _is_this(record, places[record.id])
    }
    for at in range(0, len(unique), TOGETHER):
        holders |= await transact(
            context,
            lambda tx, some=unique[at : at + TOGETHER]: _put_unique(tx, some),  # type: ignore[misc]
        )
    return holders


def _is_this(record: Record, place: Place) -> bool:
    """It was stored when nobody said so: no two jobs have come at the same nanosecond with the same
    id."""
    return place.record is not None and (place.record.age, place.record.created) == (
        record.age,
        record.created,
    )


def _receipts(jobs: Sequence[NewJob], created: set[str], earlier: dict[str, str]) -> list[Receipt]:
    receipts, told = [], set()
    for job in jobs:
        receipts.append(
            Receipt(earlier.get(job.id, job.id), job.id in created and job.id not in told)
        )
        told.add(job.id)
    return receipts


async def _put_plain(
    context: Context, records: Sequence[Record], places: Mapping[str, Place] = MappingProxyType({})
) -> set[str]:
    """The ids of those that were let in: of which there is nothing, or only what was found by
    whoever looked."""
    messages = [
        _message(context, record, places[record.id].last if places else 0) for record in records
    ]
    seqs = await context.wire.store(messages)
    return {record.id for record, seq in zip(records, seqs, strict=True) if seq}


def _message(context: Context, record: Record, last: int) -> Out:
    expected = EXPECT_AT % (last, context.subjects.anywhere(record.id).encode())
    if soon(record, record.created):
        return Out(
            context.subjects.ready(record.queue, record.priority, record.id), pack(record), expected
        )
    body, headers = home_message(context, record, record.created)
    return Out(context.subjects.home(record.queue, record.id), body, headers + expected)


async def _put_unique(tx: Tx, records: Sequence[Record]) -> dict[str, str]:
    """For each id the id of the job that has its key now."""
    subjects = tx.context.subjects
    await tx.see(subjects.unique(record.queue, record.unique or "") for record in records)
    await tx.jobs([*(record.id for record in records), *await indexes.reservers(tx, records)])
    holders = {}
    for record in records:
        holder = await indexes.reserved_for(tx, record.queue, record.unique)
        holders[record.id] = holder or record.id
        if holder is None:
            await admit(tx, replace(record, created=tx.now, due=max(record.due, tx.now)))
    return holders


async def admit(tx: Tx, record: Record) -> bool:
    """A new job within a transaction, unless its id or its unique key is taken."""
    place = await tx.job(record.id)
    if (
        place.record is not None
        or await indexes.reserved_for(tx, record.queue, record.unique) is not None
    ):
        return False
    await indexes.reserve(tx, record)
    tx.rings.add(record.queue)
    if not soon(record, tx.now):
        tx.write(place, record)
        return True
    ready = tx.context.subjects.ready(record.queue, record.priority, record.id)
    await tx.see([ready])
    tx.put(ready, pack(record))
    place.record = record
    return True


async def open_lines(context: Context, lines: Iterable[tuple[str, int]]) -> None:
    """That there is a consumer for each, and that every worker knows of it.

    The consumer comes first. A crash before the queue's record names it: nobody uses it until the
    next who enqueues there. One that is named is not made again: that would let a consumer go on
    that a pause has stopped."""
    for queue, priority in lines:
        if (queue, priority) in context.lines:
            continue
        if priority not in (await indexes.queue_of(Tx(context), queue)).priorities:
            await schema.ensure_line(context.wire, context.subjects, queue, priority)
            await context.fail_point("between consumer and queue")
            await transact(context, lambda tx, line=(queue, priority): _name_line(tx, *line))  # type: ignore[misc]
        context.lines.add((queue, priority))


async def _name_line(tx: Tx, queue: str, priority: int) -> None:
    record = await indexes.queue_of(tx, queue)
    if priority not in record.priorities:
        indexes.put_queue(
            tx, replace(record, priorities=tuple(sorted({*record.priorities, priority})))
        )
