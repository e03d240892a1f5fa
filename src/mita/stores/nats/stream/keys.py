"""The records of queues and of keys, and the waiters of a key."""

from msgspec.structs import replace

from mita.model.gate import LONGEST_INTERVAL_US, StoredLimit
from mita.model.job import State
from mita.model.time import Moment
from mita.rules.gates import ONE_MS_US, KeyUse, keys_of
from mita.stores.nats.codec import NatsJob, QueueRecord, ResourceKeyRecord, WaiterRecord, pack
from mita.stores.nats.context import NatsContext

from .decode import (
    decode_job,
    decode_queue,
    decode_resource_key,
    decode_waiter,
    is_guessed,
    raw_field,
)
from .job_records import ROLLUP, TTL, whole_seconds
from .slots import is_slot
from .transaction import StreamTransaction


async def queue_record(tx: StreamTransaction, queue: str) -> QueueRecord:
    """Returns the record of a queue; an empty one if the queue is new. One that cannot be read has
    the slots for which there are consumers."""
    if (found := tx.queues.get(queue)) is not None:
        return found
    subject = tx.context.subjects.queue(queue)
    body = await tx.body(subject)
    found = decode_queue(body, subject) if body else QueueRecord(queue)
    if is_guessed(found):
        slots = tuple(await _slots_with_consumers(tx.context, queue))
        limited = bool(await tx.body(tx.context.subjects.queue_use(queue)))
        found = replace(found, priorities=slots, limited=limited)
    tx.queues[queue] = found
    return found


async def _slots_with_consumers(context: NatsContext, queue: str) -> list[int]:
    """Returns the slots of a queue that have a consumer, sorted."""
    stream, prefix = context.subjects.stream, context.subjects.consumer(queue, 0)[:-1]
    names: list[str] = []
    while True:
        answer = await context.wire.api(f"CONSUMER.NAMES.{stream}", {"offset": len(names)})
        found = answer.get("consumers") or []
        names += found
        if not found or len(names) >= answer.get("total", 0):
            break
    slots = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return sorted(int(slot) for slot in slots if slot.isdigit() and is_slot(int(slot)))


def put_queue(tx: StreamTransaction, record: QueueRecord) -> None:
    """Write the record of a queue."""
    tx.queues[record.name] = record
    tx.put(tx.context.subjects.queue(record.name), pack(record))


async def resource_key_record(tx: StreamTransaction, queue: str, key: str) -> ResourceKeyRecord:
    """Returns the record of a key; an empty one if nothing is known of it."""
    subject = tx.context.subjects.resource_key(queue, key)
    found = tx.keys.get(subject)
    if found is not None:
        return found
    body = await tx.body(subject)
    if not body:
        found = ResourceKeyRecord(queue, key)
    else:
        found = decode_resource_key(body, subject) or await _rebuilt(tx, queue, key, body)
    tx.keys[subject] = found
    return found


async def _rebuilt(tx: StreamTransaction, queue: str, key: str, body: bytes) -> ResourceKeyRecord:
    """Returns an unreadable record of a key, made again from the jobs that hold the key and those
    that wait for it. Its rate, if it has one, has no token now: then it never gives too many."""
    reader, subjects = tx.context.reader, tx.context.subjects
    records = [
        decode_job(message.body, message.subject)
        for message in await reader.all(subjects.records(queue))
    ]
    alive = [record for record in records if not record.gone]
    holders = tuple(
        record.id
        for record in alive
        if record.state is State.RUNNING and key in keys_of(record.resource, record.gates)
    )
    waiters = [
        decode_waiter(message.body, message.subject)
        for message in await reader.all(subjects.waiters(queue, key))
        if message.body
    ]
    waiting = sum(waiter.counted for waiter in waiters)
    limit = raw_field(body, ResourceKeyRecord, "limit", StoredLimit | None, None)
    level_us = tx.now * ONE_MS_US + LONGEST_INTERVAL_US
    has_rate = any(gate.interval_us for record in alive for gate in record.gates)
    if not has_rate and (limit is None or not limit.interval_us):
        level_us = 0
    return ResourceKeyRecord(
        queue,
        key,
        holders,
        waiting,
        tat_us=level_us,
        woken_us=level_us,
        limit=limit,
        uncounted=waiting < len(waiters),
    )


def put_resource_key(tx: StreamTransaction, record: ResourceKeyRecord) -> None:
    """Write the record of a key. A record of which only a rate is left is removed by the server
    when that rate is full again; a record that says nothing is removed now."""
    subject = tx.context.subjects.resource_key(record.queue, record.key)
    if record.holders or record.may_have_waiters or record.limit is not None:
        tx.keys[subject] = record
        tx.put(subject, pack(record))
        return
    full_at = -(-max(record.tat_us, record.woken_us) // ONE_MS_US)
    if full_at > tx.now:
        tx.keys[subject] = record
        tx.put(subject, pack(record), TTL % whole_seconds(full_at - tx.now))
    else:
        tx.keys[subject] = ResourceKeyRecord(record.queue, record.key)
        tx.remove(subject)


async def count_waiter(tx: StreamTransaction, queue: str, key: str, more: int) -> None:
    """So many more jobs (or fewer) wait for a key."""
    record = await resource_key_record(tx, queue, key)
    waiting = max(0, record.waiting + more)
    wake_at = record.wake_at if waiting or record.uncounted else 0
    put_resource_key(tx, replace(record, waiting=waiting, wake_at=wake_at))


async def move_waiter(tx: StreamTransaction, old: NatsJob, new: NatsJob, *, counted: bool) -> None:
    """Update what is stored of a blocked job at its key when the job changes. `counted`: the key
    counts the job if it waits there from now on. The job's own record is fenced, so its waiter need
    not be."""
    subjects = tx.context.subjects
    was_at = old.blocked_at if old.state is State.BLOCKED else None
    is_at = new.blocked_at if new.state is State.BLOCKED else None
    if was_at is not None:
        subject = subjects.waiter(old.queue, was_at, old.priority, old.id)
        body = await tx.body(subject)
        was_counted = not body or decode_waiter(body, subject).counted
        counted = was_counted if was_at == is_at else counted
        tx.remove(subject)
        if was_at != is_at and was_counted:
            await count_waiter(tx, old.queue, was_at, -1)
    if is_at is not None:
        subject = subjects.waiter(new.queue, is_at, new.priority, new.id)
        waiter = WaiterRecord(new.id, new.queue, new.priority, new.due, new.age, counted)
        tx.put_unfenced(subject, pack(waiter), ROLLUP)  # a store that died may have left one
        if was_at != is_at:
            await _add_waiter(tx, new.queue, is_at, counted=counted)


async def _add_waiter(tx: StreamTransaction, queue: str, key: str, *, counted: bool) -> None:
    """One more job waits for a key."""
    if counted:
        await count_waiter(tx, queue, key, 1)
        return
    record = await resource_key_record(tx, queue, key)
    if not record.uncounted:
        put_resource_key(tx, replace(record, uncounted=True))


async def held_until(tx: StreamTransaction, queue: str, key: str) -> Moment:
    """Returns until when a key is on hold; 0 if it is not."""
    until = (await queue_record(tx, queue)).holds.get(key, 0)
    return until if until > tx.now else 0


async def use_of(tx: StreamTransaction, queue: str, key: str) -> KeyUse:
    """Returns what is known of a key, in the words of `rules.gates`."""
    record = await resource_key_record(tx, queue, key)
    until = await held_until(tx, queue, key)
    return KeyUse(len(record.holders), until, record.tat_us, record.woken_us)
