"""Unique keys: at most one job of a queue that has not ended has a key, and for `unique_for` after
its end no other gets it. A throttle keeps the key for a fixed time instead, from the enqueue on."""

from collections.abc import Iterable

from mita.model.time import Wait
from mita.rules.states import TERMINAL

from .codec import NatsJob, UniqueKeyRecord, pack
from .stream.decode import decode_unique_key
from .stream.job_records import TTL, LocatedJob, locate, whole_seconds
from .stream.transaction import StreamTransaction


async def recorded_holders(tx: StreamTransaction, records: Iterable[NatsJob]) -> list[str]:
    """Returns the ids in the records of these jobs' unique keys, even if those jobs have ended."""
    keys = [(record.queue, record.unique) for record in records if record.unique is not None]
    bodies = [await tx.body(tx.context.subjects.unique(queue, key)) for queue, key in keys]
    return [held.id for body in bodies if body and (held := decode_unique_key(body)) is not None]


async def holder(tx: StreamTransaction, queue: str, key: str | None) -> str | None:
    """Returns the id of the job that has this unique key; None if the key is free."""
    if key is None:
        return None
    body = await tx.body(tx.context.subjects.unique(queue, key))
    held = decode_unique_key(body) if body else None
    if held is None:
        return None
    free = await _has_ended(tx, held.id) if held.until is None else held.until <= tx.now
    return None if free else held.id


async def _has_ended(tx: StreamTransaction, id: str) -> bool:
    """True if a job has ended or is gone, so that a key it did not release is free. It is read
    twice before that is believed: `NatsContext.catch_up` says why."""
    if _is_over(await tx.job(id)):
        await tx.context.catch_up()
        return _is_over((await locate(tx.context, [id]))[id])
    return False


def _is_over(located: LocatedJob) -> bool:
    return located.record is None or located.record.state in TERMINAL


async def reserve(tx: StreamTransaction, record: NatsJob, throttle: Wait = 0) -> None:
    """Give a job its unique key, if it names one: until it ends, or for `throttle` from now."""
    if record.unique is None:
        return
    subject = tx.context.subjects.unique(record.queue, record.unique)
    await tx.read([subject])
    if throttle:
        key = UniqueKeyRecord(record.id, tx.now + throttle)
        tx.put(subject, pack(key), TTL % whole_seconds(throttle))
    else:
        tx.put(subject, pack(UniqueKeyRecord(record.id)))


async def release(tx: StreamTransaction, record: NatsJob) -> None:
    """Free the unique key of a job that is being deleted."""
    if record.unique is not None and await holder(tx, record.queue, record.unique) == record.id:
        tx.remove(tx.context.subjects.unique(record.queue, record.unique))


async def follow_job(tx: StreamTransaction, old: NatsJob, new: NatsJob) -> None:
    """Update a job's unique key when the job changes: an ended job frees it, at once or after
    `unique_for`; a job that is retried takes it again."""
    if (old.state in TERMINAL) == (new.state in TERMINAL):
        return
    if new.state not in TERMINAL:
        await reserve(tx, new)
        return
    subject = tx.context.subjects.unique(new.queue, new.unique or "")
    body = await tx.body(subject)
    if not body:
        return  # its throttle is over
    held = decode_unique_key(body)
    if held is not None and (held.id != new.id or held.until is not None):
        return  # another job has taken the key over, or a throttle keeps it
    if new.unique_for > 0:
        record = UniqueKeyRecord(new.id, tx.now + new.unique_for)
        tx.put(subject, pack(record), TTL % whole_seconds(new.unique_for))
    else:
        tx.remove(subject)
