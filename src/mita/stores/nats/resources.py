"""Keys: the jobs that wait for a key, waking them, holds and limits.

The waiters of a key are read all at once, because their order is not that of arrival; of very many
only the first. A call that frees many keys reads the waiters of all of them, and the jobs that are
first, in a few requests that go out together."""

import asyncio
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from mita.model.gate import Gate, StoredLimit
from mita.model.job import State
from mita.model.time import Moment
from mita.model.view import Holder, ResourceView
from mita.rules.gates import after_waking, next_token_at, to_wake, tokens

from .codec import ResourceKeyRecord, WaiterRecord
from .context import NatsContext
from .stream import gates
from .stream.decode import decode_queue, decode_resource_key, decode_waiter
from .stream.job_changes import change
from .stream.job_records import LocatedJob, locate
from .stream.keys import (
    held_until,
    put_queue,
    put_resource_key,
    queue_record,
    resource_key_record,
)
from .stream.reader import StoredMessage, TooManyMessages
from .stream.subjects import RecordKind
from .stream.transaction import StreamTransaction, transact
from .stream.wake_tickets import arm

WAKE_SCAN_JOBS = 20
WAKE_BATCH_JOBS = 200  # woken in one transaction; each takes two messages, and a ticket after it
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
        found, complete = await waiter_messages(tx, queue, key, most)
    bodies = {message.subject: message.body for message in found}
    bodies.update(tx.puts(pattern.removesuffix("*.*")))
    waiters = [decode_waiter(body, subject) for subject, body in bodies.items() if body]
    waiters.sort(
        key=lambda one: (-one.priority, one.due, one.age) if complete else (-one.priority, 0, 0)
    )
    return waiters


async def waiter_messages(
    tx: StreamTransaction, queue: str, key: str, most: int = WAKE_SCAN_JOBS
) -> tuple[list[StoredMessage], bool]:
    """Returns the stored waiters of a key, and whether these are all."""
    if (await resource_key_record(tx, queue, key)).waiting > READ_WAITERS:
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
    for priority in range(9, -1, -1):
        found, _ = await tx.context.reader.slice(
            tx.context.subjects.waiters(queue, key, priority), 1, most
        )
        if any(message.body for message in found):
            return found
    return []


async def wake(tx: StreamTransaction, queue: str, key: str, most: int | None = None) -> bool:
    """Put the first waiters of a key back into the queue: as many as the gate of the first one
    lets start, at most `most`. Returns True if more may start, but not in one transaction."""
    record = await resource_key_record(tx, queue, key)
    if record.waiting == 0 or await held_until(tx, queue, key):
        return False
    rate = Gate(key, None, record.interval_us, record.burst)
    if _has_no_token(rate, record, tx.now):
        await arm(tx, queue, rate)
        return False
    at_most = min(WAKE_BATCH_JOBS, most or WAKE_BATCH_JOBS)
    waiters = await waiters_of(tx, queue, key, max(at_most, WAKE_SCAN_JOBS))
    blocked = await _blocked(tx, waiters[: min(at_most, WAKE_SCAN_JOBS)])
    blocked = blocked or await _blocked(tx, waiters[:WAKE_BATCH_JOBS])
    if not blocked or blocked[0].record is None:
        return False
    gate = await gates.gate_at(tx, blocked[0].record, key)
    use = await gates.bounded_use(tx, queue, gate)
    free = to_wake(gate, use, tx.now)
    if min(free, at_most) > len(blocked):
        blocked = await _blocked(tx, waiters[:at_most])
    woken = blocked[: min(free, at_most)]
    for located in woken:
        await change(tx, located, state=State.QUEUED, blocked_at=None)
        tx.wakeups.add(queue)
    if gate.interval_us and woken:
        await gates.set_levels(tx, queue, gate, after_waking(gate, use, tx.now, len(woken)))
    await arm(tx, queue, gate)
    return most is None and len(woken) < min(free, record.waiting) and bool(woken)


def _has_no_token(rate: Gate, record: ResourceKeyRecord, now: Moment) -> bool:
    """True if many jobs wait for a rate that has no token now: they need not be read. An operator's
    limit is not in `rate`, so then they are."""
    if not rate.interval_us or record.waiting <= WAKE_SCAN_JOBS or record.limit is not None:
        return False
    return tokens(rate, max(record.tat_us, record.woken_us), now) == 0


async def wake_all(context: NatsContext, queue: str, key: str) -> None:
    """Wake as many waiters of a key as may start, in as many transactions as that takes."""
    while await transact(context, lambda tx: wake(tx, queue, key)):
        pass


async def _blocked(tx: StreamTransaction, waiters: Sequence[WaiterRecord]) -> list[LocatedJob]:
    return [
        located
        for located in await tx.jobs(waiter.id for waiter in waiters)
        if located.record is not None and located.record.state is State.BLOCKED
    ]


async def hold_key(tx: StreamTransaction, queue: str, key: str, until: Moment) -> None:
    """Start no job with this key before `until`. A time that is over ends the hold."""
    tx.wakeups.add(queue)
    record = await queue_record(tx, queue)
    holds = {name: moment for name, moment in record.holds.items() if name != key}
    if until > tx.now:
        put_queue(tx, replace(record, holds={**holds, key: until}))
        return
    if key in record.holds:
        put_queue(tx, replace(record, holds=holds))
    await wake(tx, queue, key)


async def end_holds(context: NatsContext, queue: str) -> None:
    """End the holds of a queue whose time is over, and wake as many jobs as may run."""

    async def act(tx: StreamTransaction) -> list[str]:
        record = await queue_record(tx, queue)
        over = [key for key, until in record.holds.items() if until <= tx.now]
        if not over:
            return []
        left = {key: until for key, until in record.holds.items() if key not in over}
        put_queue(tx, replace(record, holds=left))
        return [key for key in over if await wake(tx, queue, key)]

    for key in await transact(context, act):
        await wake_all(context, queue, key)


async def limit_key(context: NatsContext, queue: str, key: str, limit: StoredLimit | None) -> None:
    """Set or remove the limit of a key, and wake the jobs that may start now."""

    async def act(tx: StreamTransaction) -> bool:
        known = await queue_record(tx, queue)
        if not await tx.sequence(tx.context.subjects.queue(queue)):
            put_queue(tx, known)
        record = await resource_key_record(tx, queue, key)
        # Jobs that were woken under the old limit are counted by the new one.
        put_resource_key(tx, replace(record, limit=limit, woken_us=record.tat_us))
        tx.wakeups.add(queue)
        return await wake(tx, queue, key)

    if await transact(context, act):
        await wake_all(context, queue, key)


# ---------------------------------------------------------------- inspecting


async def resources(
    context: NatsContext, queue: str | None = None, key: str | None = None
) -> list[ResourceView]:
    """Returns the resource keys that jobs hold or wait for, or that are on hold."""
    now = context.clock.now()
    found = await context.reader.all(context.subjects.all(RecordKind.RESOURCE_KEY))
    read = [decode_resource_key(message.body, message.subject) for message in found if message.body]
    keys = {(one.queue, one.key): one for one in read if one is not None}
    holds: dict[tuple[str, str], Moment] = {}
    for message in await context.reader.all(context.subjects.all(RecordKind.QUEUE)):
        record = decode_queue(message.body, message.subject)
        holds |= {(record.name, name): until for name, until in record.holds.items() if until > now}
    shown = [
        one for one, of in keys.items() if of.holders or of.waiting > 0 or of.limit is not None
    ]
    return [
        await _view(context, keys.get(one, ResourceKeyRecord(*one)), holds.get(one))
        for one in sorted({*shown, *holds})
        if queue in (None, one[0]) and key in (None, one[1])
    ]


async def _view(context: NatsContext, key: ResourceKeyRecord, until: Moment | None) -> ResourceView:
    located = (await locate(context, key.holders)).values()
    holders = [one.record for one in located if one.record is not None]
    holders.sort(key=lambda record: (record.started or 0, record.age))
    return ResourceView(
        queue=key.queue,
        key=key.key,
        holders=tuple(Holder(record.id, record.worker, record.started) for record in holders),
        waiting=key.waiting,
        held_until=until,
        limit=key.limit,
        interval_us=key.interval_us,
        burst=key.burst,
        next_start=next_start(
            Gate(key.key, None, key.interval_us, key.burst), key.tat_us, context.clock.now()
        ),
    )


def next_start(rate: Gate | StoredLimit | None, level_us: int, now: Moment) -> Moment | None:
    """Returns when this rate allows its next start; None: now."""
    if rate is None or not rate.interval_us:
        return None
    moment = next_token_at(rate, level_us, now)
    return moment if moment > now else None


# ---------------------------------------------------------------- many keys at once


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
        if not _has_no_token(Gate(key, None, record.interval_us, record.burst), record, tx.now):
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
