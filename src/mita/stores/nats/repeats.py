"""Repeats: the stored rules that make jobs; and the lock of their leader.

A firing is one atomic batch: the cursor, if it is still where the scheduler saw it, and the
jobs."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from mita.model.repeat import FIRING_JOBS, DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import DAY, Wait
from mita.ports.store import REPEATS
from mita.rules.readable import is_lost
from mita.rules.schedule.spec import edited, switched

from .codec import LockRecord, as_record, pack
from .context import NatsContext
from .enqueue import in_lane, put_job, slots_of
from .stream.consumers import ensure_consumers
from .stream.decode import decode_lock, decode_repeat
from .stream.job_records import TTL, whole_seconds
from .stream.lanes import Group, lanes_of
from .stream.subjects import RecordKind
from .stream.transaction import StreamTransaction, transact

ENDED_STATES = {RepeatState.FINISHED, RepeatState.PARKED}
# A job with a unique key takes two messages, and a batch has at most a thousand.
FIRE_BATCH_JOBS = FIRING_JOBS
# A lock that claims to last longer was written wrongly, and counts as free.
LONGEST_LOCK_MS: Wait = DAY


async def _stored(tx: StreamTransaction, key: str) -> Repeat | None:
    subject = tx.context.subjects.repeat(key)
    body = await tx.body(subject)
    return decode_repeat(body, subject) if body else None


def _put(tx: StreamTransaction, repeat: Repeat) -> None:
    tx.put(tx.context.subjects.repeat(repeat.key), pack(repeat))


async def put_repeat(context: NatsContext, repeat: Repeat) -> Repeat:
    """Store a repeat, or edit the one with this key. Returns it as it is stored now."""

    async def act(tx: StreamTransaction) -> Repeat:
        stored = await _stored(tx, repeat.key)
        if stored is not None and stored.spec == repeat.spec and stored.state not in ENDED_STATES:
            return stored
        new = repeat if stored is None else edited(stored, repeat)
        _put(tx, new)
        tx.wakeups.add(REPEATS)
        return new

    return await transact(context, act)


async def remove_repeats(context: NatsContext, keys: Sequence[str]) -> list[bool]:
    """Remove repeats. Returns False for each key that has none."""

    async def act(tx: StreamTransaction, key: str) -> bool:
        stored = await _stored(tx, key)
        if stored is not None:
            tx.remove(tx.context.subjects.repeat(key))
            tx.wakeups.add(REPEATS)
        return stored is not None

    return [await transact(context, lambda tx, key=key: act(tx, key)) for key in keys]  # type: ignore[misc]


async def pause_repeats(context: NatsContext, keys: Sequence[str], reason: str = "") -> list[bool]:
    """Pause active repeats. Returns False for each key that has none."""
    return await _switch(context, keys, RepeatState.ACTIVE, reason)


async def resume_repeats(context: NatsContext, keys: Sequence[str]) -> list[bool]:
    """Resume paused repeats. Returns False for each key that has none."""
    return await _switch(context, keys, RepeatState.PAUSED)


async def _switch(
    context: NatsContext, keys: Sequence[str], source: RepeatState, reason: str = ""
) -> list[bool]:
    async def act(tx: StreamTransaction, key: str) -> bool:
        stored = await _stored(tx, key)
        if stored is None or stored.state is not source:
            return False
        _put(tx, switched(stored, reason))
        tx.wakeups.add(REPEATS)
        return True

    return [await transact(context, lambda tx, key=key: act(tx, key)) for key in keys]  # type: ignore[misc]


async def report_repeat(context: NatsContext, key: str, failed: bool) -> int:
    """Count a job that ended. Returns how many failures in a row there are now."""

    async def act(tx: StreamTransaction) -> int:
        stored = await _stored(tx, key)
        if stored is None or is_lost(stored):
            return 0
        failures = stored.failures + 1 if failed else 0
        if failures != stored.failures:
            _put(tx, replace(stored, failures=failures))
        return failures

    return await transact(context, act)


async def list_repeats(context: NatsContext) -> list[Repeat]:
    """Returns all repeats, by key."""
    found = await context.reader.all(context.subjects.all(RecordKind.REPEAT))
    return sorted(
        (decode_repeat(message.body, message.subject) for message in found if message.body),
        key=lambda repeat: repeat.key,
    )


async def find_repeats(context: NatsContext, keys: Sequence[str]) -> list[Repeat | None]:
    """Returns the repeat of each key, None if it has none."""
    tx = StreamTransaction(context)
    await tx.read(context.subjects.repeat(key) for key in keys)
    return [await _stored(tx, key) for key in keys]


async def due_repeats(context: NatsContext, limit: int) -> DueRepeats:
    """Returns up to `limit` repeats that are due, and when the next one is."""
    now = context.clock.now()
    active = [
        (repeat.cursor, repeat.key, repeat)
        for repeat in await list_repeats(context)
        if repeat.state is RepeatState.ACTIVE and repeat.cursor is not None
    ]
    active.sort(key=lambda one: one[:2])
    due = [repeat for cursor, _, repeat in active if cursor <= now][:limit]
    rest = active[len(due) :]
    return DueRepeats(now, due, rest[0][0] if rest else None)


async def fire(context: NatsContext, firings: Sequence[Firing]) -> list[bool]:
    """Apply firings. Returns False for each whose repeat has changed. Several go into one batch:
    the server takes milliseconds for each batch, whatever its size."""
    won: list[bool] = []
    for group in _groups(firings):
        jobs = [job for firing in group for job in firing.jobs]
        lanes = await lanes_of(context, jobs)
        records = [in_lane(as_record(job, 0, 0), lanes) for job in jobs]
        await ensure_consumers(context, {slot for record in records for slot in slots_of(record)})
        won += await transact(context, partial(_fire_all, firings=group, lanes=lanes))
    return won


def _groups(firings: Sequence[Firing]) -> Iterator[list[Firing]]:
    group: list[Firing] = []
    jobs = 0
    for firing in firings:
        full = jobs + len(firing.jobs) > FIRE_BATCH_JOBS or len(group) == FIRE_BATCH_JOBS
        if group and full:
            yield group
            group, jobs = [], 0
        group.append(firing)
        jobs += len(firing.jobs)
    if group:
        yield group


async def _fire_all(
    tx: StreamTransaction, firings: list[Firing], lanes: Mapping[Group, int]
) -> list[bool]:
    await tx.read(tx.context.subjects.repeat(firing.key) for firing in firings)
    await tx.jobs(job.id for firing in firings for job in firing.jobs)
    return [await _fire_one(tx, firing, lanes) for firing in firings]


async def _fire_one(tx: StreamTransaction, firing: Firing, lanes: Mapping[Group, int]) -> bool:
    repeat = await _stored(tx, firing.key)
    if repeat is None or repeat.state is not RepeatState.ACTIVE:
        return False
    if (repeat.cursor, repeat.revision) != (firing.cursor, firing.revision):
        return False
    _put(
        tx,
        replace(
            repeat,
            cursor=firing.next,
            count=repeat.count + firing.fired,
            last=repeat.last if firing.last is None else firing.last,
            state=firing.state,
            reason=firing.reason,
        ),
    )
    ages = tx.context.clock.new_ages(len(firing.jobs))
    for job, age in zip(firing.jobs, ages, strict=True):
        await put_job(tx, in_lane(as_record(job, tx.now, age), lanes), job)
    return True


async def _held_lock(tx: StreamTransaction, name: str) -> LockRecord | None:
    body = await tx.body(tx.context.subjects.lock(name))
    return decode_lock(body) if body else None


async def lock(context: NatsContext, name: str, holder: str, keep: Wait) -> bool:
    """Take a lock for `keep`, or extend it. Returns False if another holder has it."""

    async def act(tx: StreamTransaction) -> bool:
        held = await _held_lock(tx, name)
        other = held if held is not None and held.holder != holder else None
        if other is not None and tx.now < other.until <= tx.now + LONGEST_LOCK_MS:
            return False
        record = LockRecord(holder, tx.now + keep)
        tx.put(tx.context.subjects.lock(name), pack(record), TTL % whole_seconds(keep))
        return True

    return await transact(context, act)


async def unlock(context: NatsContext, name: str, holder: str) -> None:
    """Release a lock, if this holder has it."""

    async def act(tx: StreamTransaction) -> None:
        held = await _held_lock(tx, name)
        if held is not None and held.holder == holder:
            tx.remove(tx.context.subjects.lock(name))
            tx.wakeups.add(REPEATS)

    await transact(context, act)
