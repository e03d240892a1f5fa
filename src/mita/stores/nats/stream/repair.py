"""Freeing what blocks other jobs without reason: keys of jobs that do not run, waiters that do not
wait, and jobs that are stored as running although no worker has them.

Normally nothing of the kind is left behind. But after a crash a server may restore old messages of
a stream that an older Mita wrote (`job_records.fenced` says why). In no case may a job
wait for ever.

A reader may see a replica, or a moment, in which only one of a key and its job is there. So what
looks wrong is looked at a second time, when everything written before the first look can be seen
(`NatsContext.catch_up`). What is written then is refused if another store has changed the key since
the first look."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mita.model.job import State
from mita.model.outcome import TimelineKind
from mita.model.time import MINUTE, Wait
from mita.rules.fingerprint import fingerprint
from mita.rules.gates import keys_of
from mita.rules.judge import Retention
from mita.stores.nats import resources
from mita.stores.nats.codec import NatsJob, ResourceKeyRecord, timeline_with
from mita.stores.nats.context import NatsContext

from . import keys
from .decode import decode_claim_list, decode_job, decode_resource_key, decode_waiter
from .job_changes import finish
from .job_records import LocatedJob, locate
from .reader import StoredMessage
from .removal import remove
from .single_keys import end_start
from .subjects import RecordKind, hashed, name
from .transaction import StreamTransaction, transact
from .waiters import waiter_messages
from .wake_tickets import is_armed

# So long after its lease a running job that is on no claim list fails.
ABANDONED_AFTER_MS: Wait = 5 * MINUTE
ABANDONED_ERROR = (
    "WorkerLost: this job was stored as running, but no worker has it. NATS may have restored an "
    "old record after a crash: check whether the job has had its effect, and retry it if it has not"
)


class SeenKey(Struct, frozen=True):
    """A resource key as it was first read."""

    subject: str
    seq: int
    key: ResourceKeyRecord


async def free_stale_keys(context: NatsContext) -> None:
    """Free the keys of jobs that do not run, and wake jobs that wait for a free key."""
    messages = await context.reader.all(context.subjects.all(RecordKind.RESOURCE_KEY))
    seen_keys = [
        SeenKey(message.subject, message.seq, key)
        for message in messages
        if message.body
        for key in await _keys(context, message)
    ]
    doubtful = await _doubtful(context, seen_keys)
    for seen in seen_keys:
        if seen.key.may_have_waiters and not is_armed(seen.key, context.clock.now()):
            await resources.wake_all(context, seen.key.queue, seen.key.key)
    if doubtful:
        await context.catch_up()
        for seen in doubtful:
            await transact(context, lambda tx, seen=seen: _free(tx, seen))  # type: ignore[misc]


async def _keys(context: NatsContext, message: StoredMessage) -> list[ResourceKeyRecord]:
    """Returns the key of this record. If it is unreadable, its name is searched for among the jobs
    of its queue."""
    if (key := decode_resource_key(message.body, message.subject)) is not None:
        return [key]
    queue, hash = message.subject.split(".")[-2:]
    messages = await context.reader.all(context.subjects.records(name(queue)))
    records = [decode_job(record.body, record.subject) for record in messages]
    names = {key for record in records for key in keys_of(record.resource, record.gates)}
    return [
        await keys.resource_key_record(StreamTransaction(context), name(queue), key_name)
        for key_name in names
        if hashed(key_name) == hash
    ]


async def _doubtful(context: NatsContext, seen_keys: Sequence[SeenKey]) -> list[SeenKey]:
    """Returns the keys with a holder that does not run, and the keys without a holder or a wake
    ticket at which jobs wait. Holders whose record was abandoned half-way are failed first
    (`fail_abandoned`)."""
    now = context.clock.now()
    located = await locate(context, {id for seen in seen_keys for id in seen.key.holders})
    await fail_abandoned(
        context, [one.record for one in located.values() if one.record is not None]
    )
    return [
        seen
        for seen in seen_keys
        if (not seen.key.holders and seen.key.may_have_waiters and not is_armed(seen.key, now))
        or any(not _is_at_key(located[id], seen.key, State.RUNNING) for id in seen.key.holders)
    ]


def _is_at_key(located: LocatedJob, key: ResourceKeyRecord, state: State) -> bool:
    """True if the job has this key and this state: running jobs hold it, blocked ones wait."""
    record = located.record
    if record is None or record.state is not state or record.queue != key.queue:
        return False
    if state is State.BLOCKED:
        return record.blocked_at == key.key
    return key.key in keys_of(record.resource, record.gates)


async def _free(tx: StreamTransaction, seen: SeenKey) -> None:
    """Write who really holds a key and how many really wait for it, unless it has changed."""
    key = seen.key
    if await tx.sequence(seen.subject) != seen.seq:
        return
    if await keys.held_until(tx, key.queue, key.key):
        return
    jobs = dict(zip(key.holders, await tx.jobs(key.holders), strict=True))
    holders = tuple(id for id in jobs if _is_at_key(jobs[id], key, State.RUNNING))
    for id, located in jobs.items():
        if id not in holders:
            end_start(tx, located)
    waiting = key.waiting if holders else await _count_waiters(tx, key)
    if (holders, waiting) != (key.holders, key.waiting):
        keys.put_resource_key(tx, replace(key, holders=holders, waiting=waiting))
    await resources.wake(tx, key.queue, key.key)


async def _count_waiters(tx: StreamTransaction, key: ResourceKeyRecord) -> int:
    """Returns how many jobs wait for a key and are counted. Waiters that do not wait are removed by
    their sequence, so that newer ones stay. If there are very many, only the first are looked
    at."""
    messages, complete = await waiter_messages(tx, key.queue, key.key)
    waiters = {
        message.subject: decode_waiter(message.body, message.subject)
        for message in messages
        if message.body
    }
    jobs = dict(zip(waiters, await tx.jobs(one.id for one in waiters.values()), strict=True))
    stale = {
        subject for subject, located in jobs.items() if not _is_at_key(located, key, State.BLOCKED)
    }
    await remove(tx.context, [message.seq for message in messages if message.subject in stale])
    counted = {subject for subject, waiter in waiters.items() if waiter.counted}
    return len(counted - stale) if complete else key.waiting


# ---------------------------------------------------------------- jobs that no worker runs


async def fail_abandoned(context: NatsContext, records: Iterable[NatsJob]) -> None:
    """Fail those of these jobs that are stored as running long after their lease and are on no
    claim list: no reap would find them."""
    before = context.clock.now() - ABANDONED_AFTER_MS
    suspects = [
        record
        for record in records
        if record.state is State.RUNNING and (record.lease_until or 0) < before
    ]
    if not suspects:
        return
    listed = await _listed(context)
    for record in suspects:
        if context.subjects.record(record.queue, record.id) not in listed:
            await transact(context, lambda tx, record=record: _fail(tx, record))  # type: ignore[misc]


async def _listed(context: NatsContext) -> set[str]:
    messages = await context.reader.all(context.subjects.all(RecordKind.CLAIM_LIST))
    lists = [decode_claim_list(message.body) for message in messages if message.body]
    return {subject for one in lists if one is not None for subject in one.records}


async def _fail(tx: StreamTransaction, suspect: NatsJob) -> None:
    located = await tx.job(suspect.id)
    record = located.record
    if record is None or record.state is not State.RUNNING or record.token != suspect.token:
        return
    entry = timeline_with(record, tx.now, TimelineKind.FAILED, ABANDONED_ERROR)
    keep = Retention().failed
    entry |= {"error": ABANDONED_ERROR, "group": fingerprint(record.task, ABANDONED_ERROR)}
    await finish(tx, located, State.FAILED, keep, **entry)
    for key in keys_of(record.resource, record.gates):
        await resources.wake(tx, record.queue, key, most=1)
