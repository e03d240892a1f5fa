"""Changing a job together with what is known about it elsewhere: its resource key's line and its
unique key."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from mita.model.job import State
from mita.model.time import Wait
from mita.rules.states import TERMINAL

from .codec import KeyRecord, QueueRecord, Record, Reservation, Waiter, pack
from .job_records import TTL, Place, locate, seconds
from .reading import read_key, read_queue, read_record, read_reservation
from .tx import Tx


async def change(tx: Tx, place: Place, **changes: Any) -> Record:
    """The one way in which a transaction changes a job."""
    old = place.record
    assert old is not None, "only a job that is there can change"  # noqa: S101
    new = replace(old, **changes)
    if old.resource is not None:
        await _change_line(tx, old, new)
    if old.unique is not None:
        await _change_reservation(tx, old, new)
    tx.write(place, new)
    return new


async def finish(tx: Tx, place: Place, state: State, keep: Wait, **changes: Any) -> Record:
    """Bring a job to its end."""
    changes |= {"lease_until": None, "asked": None, "gone": keep == 0}
    return await change(tx, place, state=state, finished=tx.now, expires=tx.now + keep, **changes)


# ---------------------------------------------------------------- resource keys


async def queue_of(tx: Tx, queue: str) -> QueueRecord:
    body = await tx.body(tx.context.subjects.queue(queue))
    return read_queue(body, tx.context.subjects.queue(queue)) if body else QueueRecord(queue)


def put_queue(tx: Tx, record: QueueRecord) -> None:
    tx.put(tx.context.subjects.queue(record.name), pack(record))


async def key_of(tx: Tx, queue: str, key: str) -> KeyRecord:
    there = tx.context.subjects.key(queue, key)
    body = await tx.body(there)
    return (
        (read_key(body, there) or await _rebuilt(tx, queue, key)) if body else KeyRecord(queue, key)
    )


async def _rebuilt(tx: Tx, queue: str, key: str) -> KeyRecord:
    """The record of a key that cannot be read, from the jobs that hold the key and those that wait
    for it."""
    reader, subjects = tx.context.reader, tx.context.subjects
    homes = [
        read_record(home.body, home.subject) for home in await reader.all(subjects.homes(queue))
    ]
    of_key = [record for record in homes if record.resource == key and not record.gone]
    holders = tuple(record.id for record in of_key if record.state is State.RUNNING)
    return KeyRecord(queue, key, holders, sum(record.state is State.BLOCKED for record in of_key))


def put_key(tx: Tx, record: KeyRecord) -> None:
    subject = tx.context.subjects.key(record.queue, record.key)
    if record.holders or record.waiting > 0:
        tx.put(subject, pack(record))
    else:
        tx.remove(subject)


async def _change_line(tx: Tx, old: Record, new: Record) -> None:
    """Who holds the key and who waits for it follow from the states."""
    assert old.resource is not None, "only a job with a key stands in a line"  # noqa: S101
    if old.state is new.state and not (old.state is State.BLOCKED and old.priority != new.priority):
        return
    if not {old.state, new.state} & {State.RUNNING, State.BLOCKED}:
        return
    key = await key_of(tx, old.queue, old.resource)
    holders = [id for id in key.holders if id != old.id]
    if new.state is State.RUNNING:
        holders.append(new.id)
    waiting = key.waiting - (old.state is State.BLOCKED) + (new.state is State.BLOCKED)
    put_key(tx, replace(key, holders=tuple(holders), waiting=max(0, waiting)))
    await _change_waiter(tx, old, new)


async def _change_waiter(tx: Tx, old: Record, new: Record) -> None:
    subjects, key = tx.context.subjects, old.resource or ""
    if old.state is State.BLOCKED:
        there = subjects.waiter(old.queue, key, old.priority, old.id)
        await tx.see([there])
        tx.remove(there)
    if new.state is State.BLOCKED:
        there = subjects.waiter(new.queue, key, new.priority, new.id)
        await tx.see([there])
        tx.put(there, pack(Waiter(new.id, new.queue, new.priority, new.due, new.age)))


async def on_hold(tx: Tx, queue: str, key: str) -> bool:
    return (await queue_of(tx, queue)).holds.get(key, tx.now) > tx.now


async def may_run(tx: Tx, record: Record) -> bool:
    if record.resource is None:
        return True
    if await on_hold(tx, record.queue, record.resource):
        return False
    return len((await key_of(tx, record.queue, record.resource)).holders) < record.limit


# ---------------------------------------------------------------- unique keys


async def reservers(tx: Tx, records: Iterable[Record]) -> list[str]:
    """The ids that the reservations of these jobs' unique keys name, whatever became of them
    since."""
    keys = [(record.queue, record.unique) for record in records if record.unique is not None]
    bodies = [await tx.body(tx.context.subjects.unique(queue, key)) for queue, key in keys]
    return [held.id for body in bodies if body and (held := read_reservation(body)) is not None]


async def reserved_for(tx: Tx, queue: str, key: str | None) -> str | None:
    """The id of the job that has this unique key."""
    if key is None:
        return None
    body = await tx.body(tx.context.subjects.unique(queue, key))
    held = read_reservation(body) if body else None
    if held is None:
        return None
    over = await _has_ended(tx, held.id) if held.until is None else held.until <= tx.now
    return None if over else held.id


async def _has_ended(tx: Tx, id: str) -> bool:
    """Whether a job is gone or at its end, so that a key it has not given back is free all the
    same. It is looked at twice before that is believed: `Context.catch_up` says why."""
    if _is_over(await tx.job(id)):
        await tx.context.catch_up()
        return _is_over((await locate(tx.context, [id]))[id])
    return False


def _is_over(place: Place) -> bool:
    return place.record is None or place.record.state in TERMINAL


async def reserve(tx: Tx, record: Record) -> None:
    if record.unique is not None:
        there = tx.context.subjects.unique(record.queue, record.unique)
        await tx.see([there])
        tx.put(there, pack(Reservation(record.id)))


async def give_up(tx: Tx, record: Record) -> None:
    """The job is deleted: a key that it still has is free at once."""
    if (
        record.unique is not None
        and await reserved_for(tx, record.queue, record.unique) == record.id
    ):
        tx.remove(tx.context.subjects.unique(record.queue, record.unique))


async def _change_reservation(tx: Tx, old: Record, new: Record) -> None:
    """The key is free when the job has ended, or free after a while; a job that comes back takes it
    again."""
    if (old.state in TERMINAL) == (new.state in TERMINAL):
        return
    if new.state not in TERMINAL:
        await reserve(tx, new)
        return
    there = tx.context.subjects.unique(new.queue, new.unique or "")
    await tx.see([there])
    if new.unique_for > 0:
        tx.put(
            there, pack(Reservation(new.id, tx.now + new.unique_for)), TTL % seconds(new.unique_for)
        )
    else:
        tx.remove(there)
