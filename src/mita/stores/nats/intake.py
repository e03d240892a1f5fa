"""Taking jobs in.

A plain job is one message: a ticket in the ready line, or a schedule at its home. It is refused if there is one, so sending
it twice makes one job. A job with a unique key is written together with the key's reservation, in one atomic batch.
No step is left to a crash: what was not acknowledged is whole or not there.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from mita.model.job import NewJob, Receipt

from . import indexes, schema
from .context import Context
from .messages import Out
from .records import Record, as_record, pack
from .tx import EXPECT, Place, Tx, home_message, locate, soon, transact

CHUNK = 1000
TOGETHER = 200  # jobs with unique keys in one batch: each is two or three messages of the thousand a batch may have


async def enqueue(context: Context, jobs: Sequence[NewJob]) -> list[Receipt]:
    receipts: list[Receipt] = []
    for at in range(0, len(jobs), CHUNK):
        receipts += await _take_in(context, jobs[at : at + CHUNK])
    return receipts


async def _take_in(context: Context, jobs: Sequence[NewJob]) -> list[Receipt]:
    first: dict[str, NewJob] = {}
    for job in jobs:
        first.setdefault(job.id, job)
    places = await locate(context, first)
    fresh = [job for job in first.values() if places[job.id].record is None]
    await open_lines(context, {(job.queue, job.priority) for job in fresh})
    now = context.clock.now()
    records = {job.id: as_record(job, now, age) for job, age in zip(fresh, context.clock.age(len(fresh)), strict=True)}
    created = await _put_plain(context, [record for record in records.values() if record.unique is None], places)
    unique = [record for record in records.values() if record.unique is not None]
    earlier: dict[str, str] = {}
    for at in range(0, len(unique), TOGETHER):
        earlier |= await transact(context, lambda tx, some=unique[at : at + TOGETHER]: _put_unique(tx, some))  # type: ignore[misc]
    created |= {id for id, holder in earlier.items() if id == holder}
    if later := {record.queue for record in records.values() if not soon(record, now)}:
        context.ring(later)
    return _receipts(jobs, created, earlier)


def _receipts(jobs: Sequence[NewJob], created: set[str], earlier: dict[str, str]) -> list[Receipt]:
    receipts, told = [], set()
    for job in jobs:
        receipts.append(Receipt(earlier.get(job.id, job.id), job.id in created and job.id not in told))
        told.add(job.id)
    return receipts


async def _put_plain(context: Context, records: Sequence[Record], places: dict[str, Place]) -> set[str]:
    acks = await context.wire.store([_message(context, record, places[record.id]) for record in records])
    return {record.id for record, ack in zip(records, acks, strict=True) if not ack.conflict}


def _message(context: Context, record: Record, place: Place) -> Out:
    if soon(record, record.created):
        return Out(context.subjects.ready(record.queue, record.priority, record.id), pack(record), EXPECT % 0)
    home = context.subjects.home(record.queue, record.id)
    body, headers = home_message(context, record, record.created)
    return Out(home, body, headers + EXPECT % (place.home_seq if place.home == home else 0))


async def _put_unique(tx: Tx, records: Sequence[Record]) -> dict[str, str]:
    """For each id the id of the job that has its key now."""
    subjects = tx.context.subjects
    await tx.see(subjects.unique(record.queue, record.unique or "") for record in records)
    await tx.jobs(record.id for record in records)
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
    if place.record is not None or await indexes.reserved_for(tx, record.queue, record.unique) is not None:
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

    The consumer comes first. A crash before the queue's record names it: nobody uses it until the next who enqueues there.
    """
    for queue, priority in lines:
        if (queue, priority) in context.lines:
            continue
        await schema.ensure_line(context.wire, context.subjects, queue, priority)
        await context.fail_point("between consumer and queue")
        await transact(context, lambda tx, line=(queue, priority): _name_line(tx, *line))  # type: ignore[misc]
        context.lines.add((queue, priority))


async def _name_line(tx: Tx, queue: str, priority: int) -> None:
    record = await indexes.queue_of(tx, queue)
    if priority not in record.priorities:
        indexes.put_queue(tx, replace(record, priorities=tuple(sorted({*record.priorities, priority}))))
