"""Limited queues: how many more jobs of a queue may start.

The limit of a queue, the ids of its running jobs and the number of its rate are one record. Each
claim and each settlement of a job of that queue changes it in the same atomic batch, so the limit
holds for any number of workers. Queues without a limit have no such record, and their jobs are
claimed and settled without a batch.

A store knows which queues are limited from the records of queues, which every claim reads. If it
settles a job before it knows, the job's place stays taken until `recount` notices."""

from collections.abc import Iterable

from msgspec.structs import replace

from mita.model.gate import StoredLimit
from mita.model.job import State
from mita.model.time import SECOND, Moment, Wait
from mita.rules.gates import after_starts, given_back, places
from mita.stores.nats.codec import NatsJob, QueueUseRecord, pack
from mita.stores.nats.context import NatsContext

from .decode import decode_claim_list, decode_job, decode_queue_use, raw_field
from .subjects import RecordKind
from .transaction import StreamTransaction, transact

# After this time nobody is setting the limit any more, and its jobs can be counted.
UNCOUNTED_MS: Wait = 20 * SECOND


async def queue_use(tx: StreamTransaction, queue: str) -> QueueUseRecord | None:
    """Returns the limit of a queue and what runs in it; None if it has no limit. In an unreadable
    record only the limit must be readable: the running jobs are counted again."""
    subject = tx.context.subjects.queue_use(queue)
    body = await tx.body(subject)
    if not body:
        return None
    if (record := decode_queue_use(body, subject)) is not None:
        return record
    limit = raw_field(body, QueueUseRecord, "limit", StoredLimit, None)
    if limit is None:
        return None
    running = await running_ids(tx.context, queue)
    return QueueUseRecord(queue, limit, tuple(sorted(running)), counted=True)


def put_queue_use(tx: StreamTransaction, record: QueueUseRecord) -> None:
    """Write the limit of a queue and what runs in it."""
    tx.put(tx.context.subjects.queue_use(record.queue), pack(record))


class QueuePlaces:
    """The places of a limited queue in one transaction: how many are `left`."""

    def __init__(self, tx: StreamTransaction, record: QueueUseRecord) -> None:
        self._tx, self._record = tx, record
        self._started: list[str] = []
        self.left = places_left(record, tx.now)

    def take(self, id: str) -> None:
        """A job starts."""
        self.left -= 1
        self._started.append(id)

    def write(self) -> None:
        """Write what has changed."""
        if not self._started:
            return
        use, now = self._record, self._tx.now
        running = use.running
        if use.limit.concurrency is not None:
            running = (*running, *self._started)
        tat_us = after_starts(use.limit, use.tat_us, now, len(self._started))
        put_queue_use(self._tx, replace(use, running=running, tat_us=tat_us))


def places_left(use: QueueUseRecord, now: Moment) -> int:
    """Returns how many more jobs of a limited queue may start now."""
    return places(use.limit, len(use.running), use.tat_us, now) if use.counted else 0


async def leave(tx: StreamTransaction, job: NatsJob) -> None:
    """A job of a limited queue does not run any more."""
    use = await queue_use(tx, job.queue)
    if use is None:
        return
    tx.wakeups.add(job.queue)
    running = tuple(id for id in use.running if id != job.id)
    if running != use.running or not use.counted:
        put_queue_use(tx, replace(use, running=running))


async def give_token_back(tx: StreamTransaction, job: NatsJob) -> None:
    """A job of a limited queue was not started after all."""
    use = await queue_use(tx, job.queue)
    if use is not None and use.limit.interval_us:
        claimed = job.started or tx.now
        returned_us = tx.returned.returned_us(use.limit, job.queue, None, claimed)
        put_queue_use(tx, replace(use, tat_us=given_back(use.tat_us, returned_us)))


# ---------------------------------------------------------------- counting


async def running_jobs(context: NatsContext, queue: str, also: Iterable[str] = ()) -> list[NatsJob]:
    """Returns the running jobs of a queue, as the claim lists name them. `also` are ids to be
    looked at in any case."""
    of_queue = context.subjects.record(queue, "x")[:-1]
    wanted = {context.subjects.record(queue, id) for id in also}
    for message in await context.reader.all(context.subjects.all(RecordKind.CLAIM_LIST)):
        listed = decode_claim_list(message.body) if message.body else None
        if listed is not None:
            wanted.update(subject for subject in listed.records if subject.startswith(of_queue))
    found = [
        decode_job(message.body, message.subject) for message in await context.reader.last(wanted)
    ]
    return [record for record in found if record.state is State.RUNNING and not record.gone]


async def running_ids(context: NatsContext, queue: str, also: Iterable[str] = ()) -> set[str]:
    """Returns the ids of the running jobs of a queue."""
    return {record.id for record in await running_jobs(context, queue, also)}


async def count(context: NatsContext, queue: str) -> None:
    """Write which jobs of a limited queue run, when everything that was written before this call
    can be seen. Begins again if a job of the queue starts or ends meanwhile."""
    subject = context.subjects.queue_use(queue)
    while True:
        await context.catch_up()
        seen = await StreamTransaction(context).sequence(subject)
        use = await queue_use(StreamTransaction(context), queue)
        if use is None:
            return
        also = use.running
        ids = await running_ids(context, queue, also)

        async def act(tx: StreamTransaction, seen: int = seen, ids: set[str] = ids) -> bool:
            use = await queue_use(tx, queue)
            if use is not None and await tx.sequence(subject) != seen:
                return False
            if use is not None:
                running = tuple(sorted(ids)) if use.limit.concurrency is not None else ()
                put_queue_use(tx, replace(use, running=running, counted=True))
                tx.wakeups.add(queue)
            return True

        if await transact(context, act):
            return


async def recount(context: NatsContext, queue: str) -> None:
    """Correct which jobs of a limited queue run, if that seems to be wrong."""
    tx = StreamTransaction(context)
    use = await queue_use(tx, queue)
    if use is None or (not use.counted and tx.now - UNCOUNTED_MS < use.since <= tx.now):
        return
    if use.counted and use.limit.concurrency is None:
        return
    running = await running_ids(context, queue, use.running)
    if running != set(use.running) or not use.counted:
        await count(context, queue)
