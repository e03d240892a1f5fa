"""Enqueuing jobs.

A job without a unique key is one message: a ticket, or a schedule as its record. The server refuses
it if there is any message of that id, so that enqueuing twice makes one job. A job with a unique
key is written together with the key's record, in one atomic batch. A crash leaves nothing half
done: a job that was not acknowledged is stored completely or not at all."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from msgspec.structs import replace

from mita.model.job import NewJob, Receipt
from mita.stores.shared import room

from . import unique
from .client.errors import NoServerAnswer
from .client.messages import OutMessage
from .codec import NatsJob, as_record, pack
from .context import NatsContext
from .stream.consumers import ensure_consumers
from .stream.job_records import EXPECT_SEQ_AT, LocatedJob, is_due_soon, locate, record_message
from .stream.transaction import StreamTransaction, transact

ENQUEUE_CHUNK_JOBS = 1000
# A job with a unique key takes two or three messages, and a batch has at most a thousand.
UNIQUE_BATCH_JOBS = 200


async def enqueue(context: NatsContext, jobs: Sequence[NewJob]) -> list[Receipt]:
    """Store jobs. Returns for each its id, or the id of the job that has its unique key. Raises
    UsageError if a job is too large; then none is stored."""
    room.check(jobs, context.room, "raise the server's max_payload")
    receipts: list[Receipt] = []
    for at in range(0, len(jobs), ENQUEUE_CHUNK_JOBS):
        receipts += await _enqueue_chunk(context, jobs[at : at + ENQUEUE_CHUNK_JOBS])
    return receipts


async def _enqueue_chunk(context: NatsContext, jobs: Sequence[NewJob]) -> list[Receipt]:
    """Ids are new unless a call is repeated. So a job without a unique key is sent at once, and
    looked up only if it was refused or if no answer came."""
    first: dict[str, NewJob] = {}
    for job in jobs:
        first.setdefault(job.id, job)
    now = context.clock.now()
    records = [
        as_record(job, now, age)
        for job, age in zip(first.values(), context.clock.new_ages(len(first)), strict=True)
    ]
    created: set[str] = set()
    with suppress(NoServerAnswer):
        created = await _put_plain(
            context, [record for record in records if _can_be_sent_at_once(context, record)]
        )
    holders: dict[str, str] = {}
    if left := [record for record in records if record.id not in created]:
        holders = await _look_up_and_put(context, left)
        created |= {id for id, holder in holders.items() if id == holder}
    if scheduled := {
        record.queue for record in records if record.id in created and not is_due_soon(record, now)
    }:
        context.notifier.notify(scheduled)
    return _receipts(jobs, created, holders)


def _can_be_sent_at_once(context: NatsContext, record: NatsJob) -> bool:
    return record.unique is None and (record.queue, record.priority) in context.consumers


async def _look_up_and_put(context: NatsContext, records: Sequence[NatsJob]) -> dict[str, str]:
    """Store those of these jobs that are not there yet. Returns for each new id itself if the job
    was stored, else the id of the job that has its unique key."""
    located = await locate(context, [record.id for record in records])
    fresh = [record for record in records if located[record.id].record is None]
    await ensure_consumers(context, {(record.queue, record.priority) for record in fresh})
    plain = [record for record in fresh if record.unique is None]
    keyed = [record for record in fresh if record.unique is not None]
    holders = {id: id for id in await _put_plain(context, plain, located)}
    holders |= {record.id: record.id for record in records if _is_same(record, located[record.id])}
    for at in range(0, len(keyed), UNIQUE_BATCH_JOBS):
        holders |= await transact(
            context,
            lambda tx, some=keyed[at : at + UNIQUE_BATCH_JOBS]: _put_unique(tx, some),  # type: ignore[misc]
        )
    return holders


def _is_same(record: NatsJob, located: LocatedJob) -> bool:
    """True if this very record is stored: no two jobs with one id arrive at the same
    nanosecond."""
    found = located.record
    return found is not None and (found.age, found.created) == (record.age, record.created)


def _receipts(jobs: Sequence[NewJob], created: set[str], holders: dict[str, str]) -> list[Receipt]:
    receipts, answered = [], set()
    for job in jobs:
        is_new = job.id in created and job.id not in answered
        receipts.append(Receipt(holders.get(job.id, job.id), is_new))
        answered.add(job.id)
    return receipts


async def _put_plain(
    context: NatsContext,
    records: Sequence[NatsJob],
    located: Mapping[str, LocatedJob] = MappingProxyType({}),
) -> set[str]:
    """Store jobs without unique keys, if there is no message of their ids, or only those in
    `located`. Returns the ids of the jobs that were stored."""
    messages = [
        _message(context, record, located[record.id].last_seq if located else 0)
        for record in records
    ]
    seqs = await context.wire.store(messages)
    return {record.id for record, seq in zip(records, seqs, strict=True) if seq}


def _message(context: NatsContext, record: NatsJob, last_seq: int) -> OutMessage:
    expected = EXPECT_SEQ_AT % (last_seq, context.subjects.any_of_id(record.id).encode())
    if is_due_soon(record, record.created):
        ticket = context.subjects.ticket(record.queue, record.priority, record.id)
        return OutMessage(ticket, pack(record), expected)
    body, headers = record_message(context, record, record.created)
    return OutMessage(context.subjects.record(record.queue, record.id), body, headers + expected)


async def _put_unique(tx: StreamTransaction, records: Sequence[NatsJob]) -> dict[str, str]:
    """Store jobs whose unique key is free. Returns for each id the id of the job that has its key
    now."""
    subjects = tx.context.subjects
    await tx.read(subjects.unique(record.queue, record.unique or "") for record in records)
    others = await unique.recorded_holders(tx, records)
    await tx.jobs([*(record.id for record in records), *others])
    holders = {}
    for record in records:
        holder = await unique.holder(tx, record.queue, record.unique)
        holders[record.id] = holder or record.id
        if holder is None:
            await put_job(tx, replace(record, created=tx.now, due=max(record.due, tx.now)))
    return holders


async def put_job(tx: StreamTransaction, record: NatsJob) -> None:
    """Store a new job in a transaction, unless its id or its unique key is taken."""
    located = await tx.job(record.id)
    if located.record is not None:
        return
    if await unique.holder(tx, record.queue, record.unique) is not None:
        return
    await unique.reserve(tx, record)
    tx.wakeups.add(record.queue)
    if not is_due_soon(record, tx.now):
        tx.write(located, record)
        return
    ticket = tx.context.subjects.ticket(record.queue, record.priority, record.id)
    await tx.read([ticket])
    tx.put(ticket, pack(record))
    located.record = record
