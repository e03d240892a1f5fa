"""Enqueuing jobs.

A job without a unique key is one message: a ticket, or a schedule as its record. The server refuses
it if there is any message of that id, so that enqueuing twice makes one job. A job with a unique
key is written together with the key's record, in one atomic batch; if another job has the key, that
job is changed in the batch instead (`rules.twins`). A crash leaves nothing half done: a job that
was not acknowledged is stored completely or not at all."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from msgspec.structs import replace

from mita.model.job import NewJob, Receipt, State
from mita.model.outcome import TimelineKind
from mita.model.time import Wait
from mita.rules.twins import TwinAct, act_on_twin, debounced_due
from mita.stores.shared import room

from . import unique
from .client.errors import NoServerAnswer
from .client.messages import OutMessage
from .codec import NatsJob, as_record, pack, timeline_with
from .context import NatsContext
from .stream.consumers import ensure_consumers
from .stream.job_changes import change
from .stream.job_records import EXPECT_SEQ_AT, LocatedJob, is_due_soon, locate, record_message
from .stream.lanes import Group, group_of, lanes_of
from .stream.slots import WAKE_SLOT, slot_of
from .stream.transaction import StreamTransaction, transact
from .tickets.claim_memory import QueuePriority

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
    if fair := [record for record in records if record.fair is not None]:
        lanes = await lanes_of(context, fair)
        records = [in_lane(record, lanes) for record in records]
    created: set[str] = set()
    with suppress(NoServerAnswer):
        created = await _put_plain(
            context, [record for record in records if _can_be_sent_at_once(context, record)]
        )
    holders: dict[str, str] = {}
    if left := [record for record in records if record.id not in created]:
        holders = await _look_up_and_put(context, left, first)
        created |= {id for id, holder in holders.items() if id == holder}
    if scheduled := {
        record.queue for record in records if record.id in created and not is_due_soon(record, now)
    }:
        context.notifier.notify(scheduled)
    return _receipts(jobs, created, holders)


def in_lane(record: NatsJob, lanes: Mapping[Group, int]) -> NatsJob:
    """Returns the record of a job with the lane of its group."""
    return record if record.fair is None else replace(record, lane=lanes.get(group_of(record), 0))


def _can_be_sent_at_once(context: NatsContext, record: NatsJob) -> bool:
    if record.unique is not None:
        return False
    if record.gates or record.lane:
        return context.consumers.issuperset(slots_of(record))
    return (record.queue, slot_of(record)) in context.consumers


def slots_of(record: NatsJob) -> list[QueuePriority]:
    """Returns the consumers that a job needs: that of its slot, and that of wake tickets if it has
    a rate."""
    slots = [(record.queue, slot_of(record))]
    if any(gate.interval_us for gate in record.gates):
        slots.append((record.queue, WAKE_SLOT))
    return slots


async def _look_up_and_put(
    context: NatsContext, records: Sequence[NatsJob], news: Mapping[str, NewJob]
) -> dict[str, str]:
    """Store those of these jobs that are not there yet; `news` has them by id as they were given.
    Returns for each new id itself if the job was stored, else the id of the job that has its unique
    key."""
    located = await locate(context, [record.id for record in records])
    fresh = [record for record in records if located[record.id].record is None]
    await ensure_consumers(context, {slot for record in fresh for slot in slots_of(record)})
    plain = [record for record in fresh if record.unique is None]
    keyed = [record for record in fresh if record.unique is not None]
    holders = {id: id for id in await _put_plain(context, plain, located)}
    holders |= {record.id: record.id for record in records if _is_same(record, located[record.id])}
    for at in range(0, len(keyed), UNIQUE_BATCH_JOBS):
        holders |= await transact(
            context,
            lambda tx, some=keyed[at : at + UNIQUE_BATCH_JOBS]: _put_unique(tx, some, news),  # type: ignore[misc]
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
        ticket = context.subjects.ticket(record.queue, slot_of(record), record.id)
        return OutMessage(ticket, pack(record), expected)
    body, headers = record_message(context, record, record.created)
    return OutMessage(context.subjects.record(record.queue, record.id), body, headers + expected)


async def _put_unique(
    tx: StreamTransaction, records: Sequence[NatsJob], news: Mapping[str, NewJob]
) -> dict[str, str]:
    """Store jobs whose unique key is free, and act on the jobs that have the keys of the others.
    Returns for each id the id of the job that has its key now."""
    subjects = tx.context.subjects
    await tx.read(subjects.unique(record.queue, record.unique or "") for record in records)
    others = await unique.recorded_holders(tx, records)
    await tx.jobs([*(record.id for record in records), *others])
    return {record.id: await _put_or_meet(tx, record, news[record.id]) for record in records}


async def _put_or_meet(tx: StreamTransaction, record: NatsJob, new: NewJob) -> str:
    """Store a job in a transaction, or act on the job that has its unique key (`rules.twins`).
    Returns the id of the job that has the key now."""
    twin = await unique.holder(tx, record.queue, record.unique)
    if twin is not None and await _stands_for(tx, new, twin):
        return twin
    await _put_new(tx, replace(record, created=tx.now, due=max(record.due, tx.now)), new.throttle)
    return record.id


async def _stands_for(tx: StreamTransaction, new: NewJob, twin: str) -> bool:
    """Act on the job that has the unique key of a new job. Returns whether it stands for the new
    job, which is not stored then."""
    located = await tx.job(twin)
    old = located.record
    act = TwinAct.KEEP if old is None else act_on_twin(new, old.state)
    if act is TwinAct.MOVE and old is not None:
        if located.unsent:
            tx.take_back(located.unsent)
            located.unsent = ""
        await change(
            tx,
            located,
            state=State.QUEUED,
            due=debounced_due(new, old.created, tx.now),
            payload=new.payload,
            options=new.options,
            headers=new.headers,
            blocked_at=None,
            **timeline_with(old, tx.now, TimelineKind.DEBOUNCED),
        )
        tx.wakeups.add(new.queue)
    return act is not TwinAct.REPLACE


async def put_job(tx: StreamTransaction, record: NatsJob, new: NewJob) -> None:
    """Store a new job in a transaction, unless its id or its unique key is taken."""
    if (await tx.job(new.id)).record is None:
        await _put_or_meet(tx, record, new)


async def _put_new(tx: StreamTransaction, record: NatsJob, throttle: Wait) -> None:
    located = await tx.job(record.id)
    if located.record is not None:
        return
    await unique.reserve(tx, record, throttle)
    tx.wakeups.add(record.queue)
    if not is_due_soon(record, tx.now):
        tx.write(located, record)
        return
    ticket = tx.context.subjects.ticket(record.queue, slot_of(record), record.id)
    await tx.read([ticket])
    tx.put(ticket, pack(record))
    located.record, located.unsent = record, ticket
