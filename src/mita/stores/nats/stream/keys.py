"""The records of queues and of resource keys, and the waiters of a key."""

from msgspec.structs import replace

from mita.model.job import State
from mita.stores.nats.codec import NatsJob, QueueRecord, ResourceKeyRecord, WaiterRecord, pack

from .decode import decode_job, decode_queue, decode_resource_key
from .transaction import StreamTransaction


async def queue_record(tx: StreamTransaction, queue: str) -> QueueRecord:
    """Returns the record of a queue; an empty one if the queue is new."""
    subject = tx.context.subjects.queue(queue)
    body = await tx.body(subject)
    return decode_queue(body, subject) if body else QueueRecord(queue)


def put_queue(tx: StreamTransaction, record: QueueRecord) -> None:
    """Write the record of a queue."""
    tx.put(tx.context.subjects.queue(record.name), pack(record))


async def resource_key_record(tx: StreamTransaction, queue: str, key: str) -> ResourceKeyRecord:
    """Returns the record of a resource key; an empty one if no job holds it or waits for it."""
    subject = tx.context.subjects.resource_key(queue, key)
    body = await tx.body(subject)
    if not body:
        return ResourceKeyRecord(queue, key)
    return decode_resource_key(body, subject) or await _rebuilt(tx, queue, key)


async def _rebuilt(tx: StreamTransaction, queue: str, key: str) -> ResourceKeyRecord:
    """Returns an unreadable record of a key, made again from the jobs that hold the key and those
    that wait for it."""
    reader, subjects = tx.context.reader, tx.context.subjects
    records = [
        decode_job(message.body, message.subject)
        for message in await reader.all(subjects.records(queue))
    ]
    of_key = [record for record in records if record.resource == key and not record.gone]
    holders = tuple(record.id for record in of_key if record.state is State.RUNNING)
    waiting = sum(record.state is State.BLOCKED for record in of_key)
    return ResourceKeyRecord(queue, key, holders, waiting)


def put_resource_key(tx: StreamTransaction, record: ResourceKeyRecord) -> None:
    """Write the record of a resource key, or remove it if no job holds the key or waits for it."""
    subject = tx.context.subjects.resource_key(record.queue, record.key)
    if record.holders or record.waiting > 0:
        tx.put(subject, pack(record))
    else:
        tx.remove(subject)


async def follow_job(tx: StreamTransaction, old: NatsJob, new: NatsJob) -> None:
    """Update the holders and the waiters of a job's resource key when the job changes."""
    assert old.resource is not None, "only a job with a resource key has one"  # noqa: S101
    if old.state is new.state and not (old.state is State.BLOCKED and old.priority != new.priority):
        return
    if not {old.state, new.state} & {State.RUNNING, State.BLOCKED}:
        return
    key = await resource_key_record(tx, old.queue, old.resource)
    holders = [id for id in key.holders if id != old.id]
    if new.state is State.RUNNING:
        holders.append(new.id)
    waiting = key.waiting - (old.state is State.BLOCKED) + (new.state is State.BLOCKED)
    put_resource_key(tx, replace(key, holders=tuple(holders), waiting=max(0, waiting)))
    await _move_waiter(tx, old, new)


async def _move_waiter(tx: StreamTransaction, old: NatsJob, new: NatsJob) -> None:
    subjects, key = tx.context.subjects, old.resource or ""
    if old.state is State.BLOCKED:
        subject = subjects.waiter(old.queue, key, old.priority, old.id)
        await tx.read([subject])
        tx.remove(subject)
    if new.state is State.BLOCKED:
        subject = subjects.waiter(new.queue, key, new.priority, new.id)
        await tx.read([subject])
        tx.put(subject, pack(WaiterRecord(new.id, new.queue, new.priority, new.due, new.age)))


async def is_on_hold(tx: StreamTransaction, queue: str, key: str) -> bool:
    """True if jobs with this resource key may not start now."""
    return (await queue_record(tx, queue)).holds.get(key, tx.now) > tx.now


async def may_run(tx: StreamTransaction, record: NatsJob) -> bool:
    """True if the job's resource key is free: neither on hold nor held by as many jobs as it
    allows."""
    if record.resource is None:
        return True
    if await is_on_hold(tx, record.queue, record.resource):
        return False
    key = await resource_key_record(tx, record.queue, record.resource)
    return len(key.holders) < record.limit
