"""Stored rules that make jobs.

A firing is part of one atomic batch: the cursor, if it is still where the scheduler saw it, and the
jobs."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from mita.model.repeat import MOST_FIRED, DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import DAY, Wait
from mita.ports.store import REPEATS
from mita.rules.schedule.spec import edited

from .codec import LockHeld, as_record, pack
from .context import Context
from .enqueue import admit, open_lines
from .job_records import TTL, seconds
from .reading import read_lock, read_repeat
from .tx import Tx, transact

OVER = {RepeatState.FINISHED, RepeatState.PARKED}
# jobs in one batch: with a unique key each is two messages of the thousand a batch may have
TOGETHER = MOST_FIRED


async def _stored(tx: Tx, key: str) -> Repeat | None:
    body = await tx.body(tx.context.subjects.repeat(key))
    return read_repeat(body, tx.context.subjects.repeat(key)) if body else None


def _put(tx: Tx, repeat: Repeat) -> None:
    tx.put(tx.context.subjects.repeat(repeat.key), pack(repeat))


async def put(context: Context, given: Repeat) -> Repeat:
    async def act(tx: Tx) -> Repeat:
        stored = await _stored(tx, given.key)
        if stored is not None and stored.spec == given.spec and stored.state not in OVER:
            return stored
        new = given if stored is None else edited(stored, given)
        _put(tx, new)
        tx.rings.add(REPEATS)
        return new

    return await transact(context, act)


async def remove(context: Context, keys: Sequence[str]) -> list[bool]:
    async def act(tx: Tx, key: str) -> bool:
        stored = await _stored(tx, key)
        if stored is not None:
            tx.remove(tx.context.subjects.repeat(key))
            tx.rings.add(REPEATS)
        return stored is not None

    return [await transact(context, lambda tx, key=key: act(tx, key)) for key in keys]  # type: ignore[misc]


async def switch(
    context: Context, keys: Sequence[str], source: RepeatState, target: RepeatState
) -> list[bool]:
    """Pause or resume, if it stands where that makes sense."""

    async def act(tx: Tx, key: str) -> bool:
        stored = await _stored(tx, key)
        if stored is None or stored.state is not source:
            return False
        _put(tx, replace(stored, state=target))
        tx.rings.add(REPEATS)
        return True

    return [await transact(context, lambda tx, key=key: act(tx, key)) for key in keys]  # type: ignore[misc]


async def everything(context: Context) -> list[Repeat]:
    found = await context.reader.all(context.subjects.all("e"))
    return sorted(
        (read_repeat(message.body, message.subject) for message in found if message.body),
        key=lambda repeat: repeat.key,
    )


async def find(context: Context, keys: Sequence[str]) -> list[Repeat | None]:
    tx = Tx(context)
    await tx.see(context.subjects.repeat(key) for key in keys)
    return [await _stored(tx, key) for key in keys]


async def due(context: Context, limit: int) -> DueRepeats:
    now = context.clock.now()
    active = [
        (repeat.cursor, repeat.key, repeat)
        for repeat in await everything(context)
        if repeat.state is RepeatState.ACTIVE and repeat.cursor is not None
    ]
    active.sort(key=lambda one: one[:2])
    come = [repeat for cursor, _, repeat in active if cursor <= now][:limit]
    rest = active[len(come) :]
    return DueRepeats(now, come, rest[0][0] if rest else None)


async def fire(context: Context, firings: Sequence[Firing]) -> list[bool]:
    """Several in one batch: the server takes milliseconds for each of those, however much is in
    it."""
    won: list[bool] = []
    for group in _groups(firings):
        await open_lines(
            context, {(job.queue, job.priority) for firing in group for job in firing.jobs}
        )
        won += await transact(context, lambda tx, group=group: _move_cursors(tx, group))  # type: ignore[misc]
    return won


def _groups(firings: Sequence[Firing]) -> Iterator[list[Firing]]:
    group: list[Firing] = []
    jobs = 0
    for firing in firings:
        if group and (jobs + len(firing.jobs) > TOGETHER or len(group) == TOGETHER):
            yield group
            group, jobs = [], 0
        group.append(firing)
        jobs += len(firing.jobs)
    if group:
        yield group


async def _move_cursors(tx: Tx, firings: list[Firing]) -> list[bool]:
    await tx.see(tx.context.subjects.repeat(firing.key) for firing in firings)
    await tx.jobs(job.id for firing in firings for job in firing.jobs)
    return [await _move_cursor(tx, firing) for firing in firings]


async def _standing(tx: Tx, firing: Firing) -> Repeat | None:
    repeat = await _stored(tx, firing.key)
    if repeat is None or repeat.state is not RepeatState.ACTIVE:
        return None
    return repeat if (repeat.cursor, repeat.revision) == (firing.cursor, firing.revision) else None


async def _move_cursor(tx: Tx, firing: Firing) -> bool:
    repeat = await _standing(tx, firing)
    if repeat is None:
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
    for job, age in zip(firing.jobs, tx.context.clock.age(len(firing.jobs)), strict=True):
        await admit(tx, as_record(job, tx.now, age))
    return True


async def lock(context: Context, name: str, holder: str, keep: Wait) -> bool:
    async def act(tx: Tx) -> bool:
        there = tx.context.subjects.lock(name)
        body = await tx.body(there)
        held = read_lock(body) if body else None
        if held is not None and held.holder != holder and tx.now < held.until <= tx.now + DAY:
            return False
        tx.put(there, pack(LockHeld(holder, tx.now + keep)), TTL % seconds(keep))
        return True

    return await transact(context, act)


async def unlock(context: Context, name: str, holder: str) -> None:
    async def act(tx: Tx) -> None:
        there = tx.context.subjects.lock(name)
        body = await tx.body(there)
        held = read_lock(body) if body else None
        if held is not None and held.holder == holder:
            tx.remove(there)
            tx.rings.add(REPEATS)

    await transact(context, act)
