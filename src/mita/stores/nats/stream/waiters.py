"""The jobs that wait for a key.

The waiters of a key are read all at once, because their order is not that of arrival; of very many
only the first. A call that frees many keys reads the waiters of all of them, and the jobs that are
first, in a few requests that go out together.

**Counted and uncounted.** A key that limits running jobs counts its waiters in its record: the end
of a run must know whether to look for one. Each start at a rate writes the record of its key too,
and all workers compete for it. So jobs that wait at a key with nothing but a rate are not counted:
the record only says `uncounted`, and to block one more job does not write it. The wake ticket of
the key, which is there as long as it says so, finds them.

When the last of them is woken, `uncounted` becomes False, but a store that has read True may be
blocking one more job at that moment. So both look again after they have written: the one at the
waiters, the other at the key. All writes have an order, so at least one of the two sees what the
other wrote (`resources.look_again`). If a store dies before it has looked, its ticket (of the job,
or of the key) was not acknowledged, and the store that gets it next looks."""

import asyncio
from collections.abc import Iterator, Sequence

from mita.model.gate import Gate
from mita.model.job import State
from mita.model.time import Moment
from mita.rules.gates import effective, tokens
from mita.stores.nats.codec import ResourceKeyRecord, WaiterRecord
from mita.stores.nats.context import NatsContext

from .decode import decode_waiter
from .keys import held_until, queue_record, resource_key_record
from .reader import StoredMessage, TooManyMessages
from .slots import job_slots, priority_of
from .transaction import StreamTransaction

WAKE_SCAN_JOBS = 20
# Half of what the server gives in one answer: waiters that left a moment ago are in it too.
READ_WAITERS = 500
UNCOUNTED_WAITERS = 100  # they are read for each token


async def waiters_of(
    tx: StreamTransaction, queue: str, key: str, most: int = WAKE_SCAN_JOBS
) -> tuple[list[WaiterRecord], bool]:
    """Returns the jobs that wait for a key in the order of their turn, and whether these are all.
    If there are very many, only the first ones of the highest priority, at most `most`."""
    pattern = tx.context.subjects.waiters(queue, key)
    if pattern not in tx.waiters:
        found, complete = await waiter_messages(tx, queue, key, most)
        tx.add_read(found)
    else:
        found, complete = tx.waiters[pattern]
    bodies = {message.subject: message.body for message in found}
    bodies.update(tx.puts(pattern.removesuffix("*.*")))
    waiters = [decode_waiter(body, subject) for subject, body in bodies.items() if body]
    waiters.sort(
        key=lambda one: (-one.priority, one.due, one.age) if complete else (-one.priority, 0, 0)
    )
    return waiters, complete


async def waiter_messages(
    tx: StreamTransaction, queue: str, key: str, most: int = WAKE_SCAN_JOBS
) -> tuple[list[StoredMessage], bool]:
    """Returns the stored waiters of a key, and whether these are all. Of more than `READ_WAITERS`,
    only the first."""
    record, pattern = await resource_key_record(tx, queue, key), _pattern(tx, queue, key)
    many = record.waiting
    if record.uncounted:
        found, left = await tx.context.reader.slice(pattern, 1, most)
        if not left:
            return found, True
        many = len(found) + left
        if many > UNCOUNTED_WAITERS and len(await _priorities(tx, queue)) <= 1:
            return found, False
    if many > (UNCOUNTED_WAITERS if record.uncounted else READ_WAITERS):
        return await _first_waiters(tx, queue, key, most), False
    try:
        return await tx.context.reader.last([pattern]), True
    except TooManyMessages:
        return await _first_waiters(tx, queue, key, most), False


async def has_waiters(context: NatsContext, queue: str, key: str) -> bool:
    """True if a job waits for this key. Everything that was written before this store's last write
    is seen."""
    try:
        found = await context.reader.last([context.subjects.waiters(queue, key)])
    except TooManyMessages:
        return True
    return any(message.body for message in found)


async def drop_stale(
    tx: StreamTransaction, queue: str, key: str, waiters: Sequence[WaiterRecord]
) -> None:
    """Remove those of these waiters whose jobs do not wait: a store that died has left them
    (`stepwise`). A job that is queued may be about to be blocked, so its waiter stays."""
    jobs = await tx.jobs(waiter.id for waiter in waiters)
    for waiter, located in zip(waiters, jobs, strict=True):
        if located.record is None or located.record.state not in (State.BLOCKED, State.QUEUED):
            tx.remove(tx.context.subjects.waiter(queue, key, waiter.priority, waiter.id))


def _pattern(tx: StreamTransaction, queue: str, key: str) -> str:
    return tx.context.subjects.waiters(queue, key)


async def _priorities(tx: StreamTransaction, queue: str) -> set[int]:
    slots = job_slots((await queue_record(tx, queue)).priorities)
    return {priority_of(slot) for slot in slots}


async def _first_waiters(
    tx: StreamTransaction, queue: str, key: str, most: int
) -> list[StoredMessage]:
    """Returns waiters of the highest priority in the order in which they began to wait. Except for
    rescheduled jobs that is the order of due time and age."""
    known: list[int | None] = [*sorted(await _priorities(tx, queue), reverse=True)]
    for priority in known or [None]:
        found, _ = await tx.context.reader.slice(
            tx.context.subjects.waiters(queue, key, priority), 1, most
        )
        if any(message.body for message in found):
            return found
    return []


def likely_wakes(record: ResourceKeyRecord, now: Moment) -> int:
    """Returns how many jobs the rate of a key is likely to wake now, so that no more are read; at
    least 1. The jobs themselves say how many it is."""
    rate = effective(Gate(record.key, None, record.interval_us, record.burst), record.limit)
    if not rate.interval_us:
        return WAKE_SCAN_JOBS
    return max(1, tokens(rate, max(record.tat_us, record.woken_us), now))


def has_no_token(rate: Gate, record: ResourceKeyRecord, now: Moment) -> bool:
    """True if many jobs wait for a rate that has no token now: they need not be read. An operator's
    limit is not in `rate`, so then they are."""
    if not rate.interval_us or record.waiting <= WAKE_SCAN_JOBS or record.limit is not None:
        return False
    return tokens(rate, max(record.tat_us, record.woken_us), now) == 0


async def read_for_wake(
    tx: StreamTransaction, keys: Sequence[tuple[str, str]], at: Moment | None = None
) -> None:
    """Read in advance what `wake` of one waiter needs, for all these (queue, key), and of as many
    waiters as a rate is likely to wake `at` that time (None: now)."""
    subjects, at = tx.context.subjects, at or tx.now
    await tx.read(
        subject
        for queue, key in keys
        for subject in (subjects.queue(queue), subjects.resource_key(queue, key))
    )
    waiting, uncounted = {}, []
    for queue, key in dict.fromkeys(keys):
        record = await resource_key_record(tx, queue, key)
        if not record.may_have_waiters or await held_until(tx, queue, key):
            continue
        if record.uncounted:
            uncounted.append((queue, key))
        elif record.waiting > READ_WAITERS:
            continue
        elif not has_no_token(Gate(key, None, record.interval_us, record.burst), record, tx.now):
            waiting[queue, key] = record.waiting
    await asyncio.gather(
        *(_read_waiters(tx, part) for part in _parts(waiting)),
        *(_read_uncounted(tx, *one, at) for one in uncounted),
    )
    read = [one for one in (*waiting, *uncounted) if subjects.waiters(*one) in tx.waiters]
    lists = [(await waiters_of(tx, *one))[0] for one in read]
    first = {waiters[0].id for waiters in lists if waiters}
    for queue, key in uncounted:
        likely = likely_wakes(await resource_key_record(tx, queue, key), at)
        first.update(one.id for one in (await waiters_of(tx, queue, key))[0][:likely])
    await tx.jobs(first)


async def _read_uncounted(tx: StreamTransaction, queue: str, key: str, at: Moment) -> None:
    pattern = tx.context.subjects.waiters(queue, key)
    if pattern not in tx.waiters:
        record = await resource_key_record(tx, queue, key)
        found, complete = await waiter_messages(tx, queue, key, likely_wakes(record, at))
        tx.add_read(found)
        tx.waiters[pattern] = found, complete


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
    tx.waiters.update({pattern: (messages, True) for pattern, messages in waiters.items()})
