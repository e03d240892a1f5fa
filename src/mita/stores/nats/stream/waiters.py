"""The jobs that wait for a key.

The waiters of a key are read all at once, because their order is not that of arrival; of very many
only the first. A call that frees many keys reads the waiters of all of them, and the jobs that are
first, in a few requests that go out together."""

import asyncio
from collections.abc import Iterator, Sequence

from mita.model.gate import Gate
from mita.model.job import PRIORITIES
from mita.model.time import Moment
from mita.rules.gates import tokens
from mita.stores.nats.codec import ResourceKeyRecord, WaiterRecord

from .decode import decode_waiter
from .keys import held_until, queue_record, resource_key_record
from .reader import StoredMessage, TooManyMessages
from .subjects import job_slots, priority_of
from .transaction import StreamTransaction

WAKE_SCAN_JOBS = 20
# Half of what the server gives in one answer: waiters that left a moment ago are in it too.
READ_WAITERS = 500


async def waiters_of(
    tx: StreamTransaction, queue: str, key: str, most: int = WAKE_SCAN_JOBS
) -> list[WaiterRecord]:
    """Returns the jobs that wait for a key, in the order of their turn. If there are very many,
    only the first ones of the highest priority, at most `most`."""
    pattern = tx.context.subjects.waiters(queue, key)
    if pattern in tx.waiters:
        found, complete = tx.waiters[pattern], True
    else:
        many = (await resource_key_record(tx, queue, key)).waiting > READ_WAITERS
        found, complete = await waiter_messages(tx, queue, key, most, many=many)
    bodies = {message.subject: message.body for message in found}
    bodies.update(tx.puts(pattern.removesuffix("*.*")))
    waiters = [decode_waiter(body, subject) for subject, body in bodies.items() if body]
    waiters.sort(
        key=lambda one: (-one.priority, one.due, one.age) if complete else (-one.priority, 0, 0)
    )
    return waiters


async def waiter_messages(
    tx: StreamTransaction, queue: str, key: str, most: int = WAKE_SCAN_JOBS, *, many: bool = False
) -> tuple[list[StoredMessage], bool]:
    """Returns the stored waiters of a key, and whether these are all. `many`: there are more than
    one answer holds."""
    if many:
        return await _first_waiters(tx, queue, key, most), False
    try:
        return await tx.context.reader.last([tx.context.subjects.waiters(queue, key)]), True
    except TooManyMessages:
        return await _first_waiters(tx, queue, key, most), False


async def _first_waiters(
    tx: StreamTransaction, queue: str, key: str, most: int
) -> list[StoredMessage]:
    """Returns waiters of the highest priority in the order in which they began to wait. Except for
    rescheduled jobs that is the order of due time and age."""
    slots = job_slots((await queue_record(tx, queue)).priorities)
    for priority in sorted({priority_of(slot) for slot in slots} or PRIORITIES, reverse=True):
        found, _ = await tx.context.reader.slice(
            tx.context.subjects.waiters(queue, key, priority), 1, most
        )
        if any(message.body for message in found):
            return found
    return []


def has_no_token(rate: Gate, record: ResourceKeyRecord, now: Moment) -> bool:
    """True if many jobs wait for a rate that has no token now: they need not be read. An operator's
    limit is not in `rate`, so then they are."""
    if not rate.interval_us or record.waiting <= WAKE_SCAN_JOBS or record.limit is not None:
        return False
    return tokens(rate, max(record.tat_us, record.woken_us), now) == 0


async def read_for_wake(tx: StreamTransaction, keys: Sequence[tuple[str, str]]) -> None:
    """Read in advance what `wake` of one waiter needs, for all these (queue, key)."""
    subjects = tx.context.subjects
    await tx.read(
        subject
        for queue, key in keys
        for subject in (subjects.queue(queue), subjects.resource_key(queue, key))
    )
    waiting = {}
    for queue, key in dict.fromkeys(keys):
        record = await resource_key_record(tx, queue, key)
        if not 0 < record.waiting <= READ_WAITERS or await held_until(tx, queue, key):
            continue
        if not has_no_token(Gate(key, None, record.interval_us, record.burst), record, tx.now):
            waiting[queue, key] = record.waiting
    await asyncio.gather(*(_read_waiters(tx, part) for part in _parts(waiting)))
    lists = [await waiters_of(tx, *one) for one in waiting if subjects.waiters(*one) in tx.waiters]
    await tx.jobs(waiters[0].id for waiters in lists if waiters)


def _parts(waiting: dict[tuple[str, str], int]) -> Iterator[list[tuple[str, str]]]:
    """Yields keys whose waiters fit into one answer."""
    part: list[tuple[str, str]] = []
    together = 0
    for one, count in waiting.items():
        if part and together + count > READ_WAITERS:
            yield part
            part, together = [], 0
        part.append(one)
        together += count
    if part:
        yield part


async def _read_waiters(tx: StreamTransaction, keys: Sequence[tuple[str, str]]) -> None:
    waiters: dict[str, list[StoredMessage]]
    waiters = {tx.context.subjects.waiters(*one): [] for one in keys}
    try:
        found = await tx.context.reader.last(waiters)
    except TooManyMessages:  # then each key is read by itself
        return
    for message in found:
        waiters[message.subject.rsplit(".", 2)[0] + ".*.*"].append(message)
    tx.add_read(found)
    tx.waiters.update(waiters)
