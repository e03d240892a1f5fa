"""Keys: waking the jobs that wait for a key, holds and limits."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from mita.model.gate import Gate, StoredLimit
from mita.model.job import State
from mita.model.time import Moment
from mita.model.view import Holder, ResourceView
from mita.rules.gates import after_waking, keys_of, next_token_at, to_wake

from .codec import ResourceKeyRecord, WaiterRecord
from .context import NatsContext
from .stream import gates
from .stream.decode import decode_queue, decode_resource_key
from .stream.job_changes import change
from .stream.job_records import LocatedJob, locate
from .stream.key_jobs import with_holders, with_waiting
from .stream.keys import (
    held_until,
    put_queue,
    put_resource_key,
    queue_record,
    resource_key_record,
)
from .stream.queue_use import running_jobs
from .stream.subjects import RecordKind
from .stream.transaction import StreamTransaction, transact
from .stream.waiters import (
    WAKE_SCAN_JOBS,
    drop_stale,
    has_no_token,
    has_waiters,
    likely_wakes,
    waiters_of,
)
from .stream.wake_tickets import arm, arm_now, is_armed

NOTED_JOBS = 900  # running jobs that one transaction can write again
WAKE_BATCH_JOBS = 200  # woken in one transaction; each takes three messages, its ticket included


class Woken(NamedTuple):
    """The jobs that were woken, and whether more may start, but not in one transaction. `empty`: no
    job waits for the key any more."""

    jobs: Sequence[LocatedJob] = ()
    more: bool = False
    empty: bool = False


async def wake(tx: StreamTransaction, queue: str, key: str, most: int | None = None) -> Woken:
    """Put the first waiters of a key back into the queue: as many as the gate of the first one
    lets start, at most `most`. If none is left, only a wake ticket may say so in the record."""
    woken = await open_key(tx, queue, key, most)
    if woken.empty and (await resource_key_record(tx, queue, key)).uncounted:
        await arm_now(tx, queue, key)
    return woken


async def open_key(
    tx: StreamTransaction,
    queue: str,
    key: str,
    most: int | None = None,
    *,
    hand_on: bool = False,
) -> Woken:
    """Do what `wake` does, and leave the record as it is if no job waits any more. `hand_on`: if
    more than `most` may start, any store wakes the others at once."""
    record = await resource_key_record(tx, queue, key)
    if not record.may_have_waiters or await held_until(tx, queue, key):
        return Woken()
    rate = Gate(key, None, record.interval_us, record.burst)
    if has_no_token(rate, record, tx.now):
        await arm(tx, queue, rate)
        return Woken()
    at_most = min(WAKE_BATCH_JOBS, most or WAKE_BATCH_JOBS)
    likely = min(at_most, WAKE_SCAN_JOBS)
    if record.uncounted:
        likely = min(at_most, likely_wakes(record, tx.now))
    waiters, complete = await waiters_of(
        tx, queue, key, likely if record.uncounted else max(at_most, WAKE_SCAN_JOBS)
    )
    blocked = await _blocked(tx, waiters[:likely])
    blocked = blocked or await _blocked(tx, waiters[:WAKE_BATCH_JOBS])
    if not blocked or blocked[0].record is None:
        if record.uncounted and waiters:
            await drop_stale(tx, queue, key, waiters)
            await arm(tx, queue, rate)
        return Woken(empty=complete and not waiters)
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
    empty = complete and len(woken) == len(waiters)
    if not empty:
        await arm(tx, queue, gate, hand_on=hand_on and free > at_most)
    more = most is None and 0 < len(woken) < free and not empty
    return Woken(woken, more, empty)


async def look_again(
    context: NatsContext, queue: str, key: str, wake_seqs: Collection[int] = ()
) -> None:
    """Make sure that jobs that wait for a key are woken: its record says that there are none, but
    one came at the same time (`stream.waiters`). The wake tickets with these sequences do not count
    any more."""

    async def act(tx: StreamTransaction) -> None:
        tx.wake_seqs = set(wake_seqs)
        record = await resource_key_record(tx, queue, key)
        put_resource_key(tx, replace(record, uncounted=True, wake_at=0))
        await wake(tx, queue, key)

    if await has_waiters(context, queue, key):
        await transact(context, act)


async def check_blocked(context: NatsContext, queue: str, key: str) -> None:
    """Make sure that a job is woken that was blocked at this key without a write to its record."""
    tx = StreamTransaction(context)
    record = await resource_key_record(tx, queue, key)
    if not record.uncounted or not is_armed(record, tx.now):
        await look_again(context, queue, key)


async def wake_all(context: NatsContext, queue: str, key: str) -> None:
    """Wake as many waiters of a key as may start, in as many transactions as that takes."""
    while (await transact(context, lambda tx: wake(tx, queue, key))).more:
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
        return [key for key in over if (await wake(tx, queue, key)).more]

    for key in await transact(context, act):
        await wake_all(context, queue, key)


async def limit_key(context: NatsContext, queue: str, key: str, limit: StoredLimit | None) -> None:
    """Set or remove the limit of a key, and wake the jobs that may start now. A key that had just a
    rate does not know which jobs run, so they are counted first."""
    subject = context.subjects.resource_key(queue, key)
    while True:
        seen = await StreamTransaction(context).sequence(subject)
        holders: list[str] = []
        if limit is not None and limit.concurrency is not None:
            await context.catch_up()
            holders = [
                job.id
                for job in await running_jobs(context, queue)
                if key in keys_of(job.resource, job.gates)
            ]
        act = partial(_put_limit, queue=queue, key=key, limit=limit, seen=seen, holders=holders)
        if (more := await transact(context, act)) is not None:
            break
    if more:
        await wake_all(context, queue, key)


async def _put_limit(
    tx: StreamTransaction,
    queue: str,
    key: str,
    limit: StoredLimit | None,
    seen: int,
    holders: list[str],
) -> bool | None:
    """Write the limit of a key. Returns whether more jobs may be woken, or None if the key has
    changed since it was `seen`: then nothing is written."""
    if await tx.sequence(tx.context.subjects.resource_key(queue, key)) != seen:
        return None
    known = await queue_record(tx, queue)
    if not await tx.sequence(tx.context.subjects.queue(queue)):
        put_queue(tx, known)
    record = await resource_key_record(tx, queue, key)
    new = [id for id in holders if id not in record.holders]
    await _note_running(tx, new)
    all_holders = (*record.holders, *new)
    # Jobs that were woken under the old limit are counted by the new one.
    put_resource_key(tx, replace(record, limit=limit, holders=all_holders, woken_us=record.tat_us))
    tx.wakeups.add(queue)
    return (await wake(tx, queue, key)).more


async def _note_running(tx: StreamTransaction, ids: Sequence[str]) -> None:
    """Write the records of running jobs again, as they are. A job that held no key when it was
    claimed is settled without a look at its keys; that is refused now, because its record has
    changed."""
    for located in (await tx.jobs(ids))[:NOTED_JOBS]:
        if located.record is not None and located.record.state is State.RUNNING:
            tx.write(located, located.record)


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
    keys = await with_holders(context, await with_waiting(context, keys, queue, key))
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
