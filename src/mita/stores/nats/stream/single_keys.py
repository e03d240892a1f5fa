"""Jobs with one key, started and ended without an atomic batch.

A server with one replica makes a directory for every batch and waits for its disk several times
(`stepwise`). Most jobs with a key find it free, and nobody waits for it when they end. What these
need is written with plain publishes, in an order in which a crash between two steps does no harm.

A start:

1. The record of the key, fenced: it decides who has the key. If the process dies now, the key is
   held by a job that does not run. Its ticket comes to another store, for which a key that its own
   job holds is open. If the job is changed before that, a reap frees the key.
2. The claim list and the record of the job, fenced, as of a job without keys. If it is refused,
   the key is freed, unless another store runs the job.

An end:

1. The record of the job, fenced: it decides what becomes of the job.
2. The removal of the key's record, fenced. If it is refused, others came to the key since the
   start: a transaction frees it and wakes them. If the process dies before, a reap does the same.

A reap that frees the key of a ready job writes that job again (`repair`). So a store that was
stopped between the two steps of a start cannot go on: its record of the job is refused."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from mita.errors import Rejected
from mita.model.job import State
from mita.stores.nats import resources
from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.codec import NatsJob, QueueRecord, ResourceKeyRecord, pack
from mita.stores.nats.context import NatsContext

from . import gates
from .decode import decode_queue, decode_resource_key, is_guessed
from .job_records import TTL, LocatedJob, fenced
from .partition import in_parallel
from .reader import StoredMessage
from .transaction import StreamTransaction, transact
from .waiters import read_for_wake

FREED_BATCH_JOBS = 150  # each takes up to five messages, and a batch has at most a thousand


class HeldKey(NamedTuple):
    """The key of a job: `seq` is the sequence of the key's record if that names nothing but this
    job; else 0."""

    queue: str
    key: str
    id: str
    seq: int = 0


async def hold_free_keys(context: NatsContext, jobs: Sequence[NatsJob]) -> dict[str, HeldKey]:
    """Give each of these jobs its key, if the key is free and nobody waits for it. All their keys
    are different. Returns the keys that were given, by job id."""
    subjects = [context.subjects.resource_key(job.queue, job.resource or "") for job in jobs]
    queues = [context.subjects.queue(queue) for queue in {job.queue for job in jobs}]
    found = {
        message.subject: message for message in await context.reader.last([*subjects, *queues])
    }
    holds = _holds(found[subject] for subject in queues if subject in found)
    given: list[tuple[NatsJob, ResourceKeyRecord]] = []
    messages = []
    for job, subject in zip(jobs, subjects, strict=True):
        message = found.get(subject)
        key = _with_holder(job, message)
        if key is not None and key.key not in holds.get(job.queue, {key.key: 0}):
            given.append((job, key))
            seq = 0 if message is None else message.seq
            messages.append(OutMessage(subject, pack(key), fenced(seq)))
    seqs = await context.wire.store(messages)
    return {
        job.id: HeldKey(job.queue, key.key, job.id, seq if len(key.holders) == 1 else 0)
        for (job, key), seq in zip(given, seqs, strict=True)
        if seq
    }


def _holds(found: Iterable[StoredMessage]) -> dict[str, Mapping[str, int]]:
    """Returns the holds of queues, by queue; nothing of those that cannot be read."""
    records: list[QueueRecord] = [
        decode_queue(message.body, message.subject) for message in found if message.body
    ]
    return {record.name: record.holds for record in records if not is_guessed(record)}


def _with_holder(job: NatsJob, message: StoredMessage | None) -> ResourceKeyRecord | None:
    """Returns the record of the job's key with this job as a holder. None if the job may have to
    wait, or if more than the running jobs must be looked at."""
    if message is None or not message.body:
        return ResourceKeyRecord(job.queue, job.resource or "", (job.id,))
    key = decode_resource_key(message.body, message.subject)
    if key is None or key.limit is not None or key.may_have_waiters or key.interval_us:
        return None
    others = tuple(id for id in key.holders if id != job.id)
    if len(others) >= job.limit or key.tat_us or key.woken_us:
        return None
    return ResourceKeyRecord(key.queue, key.key, (*others, job.id))


async def free_keys(context: NatsContext, held: Sequence[HeldKey]) -> None:
    """Free the keys of jobs that have ended or were put back. Those whose records name nothing but
    their job are removed at once."""
    alone = [one for one in held if one.seq]
    messages = [
        OutMessage(context.subjects.resource_key(one.queue, one.key), b"", fenced(one.seq, TTL % 1))
        for one in alone
    ]
    seqs = await context.wire.store(messages)
    changed = [one for one, seq in zip(alone, seqs, strict=True) if not seq]
    changed += [one for one in held if not one.seq]

    async def free(part: list[HeldKey]) -> None:
        await transact(context, lambda tx: _free_and_wake(tx, part))

    await in_parallel(changed, lambda one: [(one.queue, one.key)], FREED_BATCH_JOBS, free)


async def _free_and_wake(tx: StreamTransaction, held: Sequence[HeldKey]) -> None:
    """Free the keys of those of these jobs that do not run, and wake jobs that wait for them."""
    await read_for_wake(tx, [(one.queue, one.key) for one in held])
    for one, located in zip(held, await tx.jobs(one.id for one in held), strict=True):
        if located.record is None or located.record.state is not State.RUNNING:
            end_start(tx, located)
            await gates.free(tx, one.queue, one.key, one.id)
            await resources.wake(tx, one.queue, one.key, most=1)


def end_start(tx: StreamTransaction, located: LocatedJob) -> None:
    """Write a ready job again, as it is, because its key is freed. A store that is about to start
    it has the key no more: its record of the job is refused now. A record that is too large for the
    server stays as it is: no store can start that job either."""
    if located.record is not None and located.record.state is State.QUEUED:
        with suppress(Rejected):
            tx.write(located, located.record)
