"""What operators control: pausing queues, holding keys; and the heartbeats of workers."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from mita.model.gate import StoredLimit
from mita.model.time import MINUTE, Moment, Wait, When
from mita.model.view import WorkerView

from .client.messages import OutMessage
from .codec import WorkerRecord, pack
from .context import NatsContext
from .resources import hold_key, limit_key
from .stream import consumers, keys
from .stream.job_records import ROLLUP, TTL, whole_seconds
from .stream.subjects import WAKE_SLOT
from .stream.transaction import StreamTransaction, transact
from .tickets.claim_memory import QueuePriority

# How long the consumers of a paused queue deliver nothing: much longer than a claim believes that
# its queue is not paused (`claim.UNPAUSED_BELIEVED_S`).
CONSUMER_PAUSE_MS: Wait = MINUTE


async def pause(context: NatsContext, queues: Sequence[str]) -> None:
    """Start no more jobs of these queues.

    A claim that begins after this reads the pause in the queue's record. A claim that has read the
    record before may still pull. So the consumers are stopped for as long as such a claim may last.
    After a crash between the two steps later claims know of the pause, and this call has not
    returned."""

    async def act(tx: StreamTransaction) -> list[QueuePriority]:
        records = [await keys.queue_record(tx, queue) for queue in dict.fromkeys(queues)]
        for record in records:
            if record.paused is None:
                keys.put_queue(tx, replace(record, paused=tx.now))
        return [(record.name, priority) for record in records for priority in record.priorities]

    stopped = await transact(context, act)
    await _pause_consumers(context, stopped, context.clock.now() + CONSUMER_PAUSE_MS)
    names = {queue for queue, _ in stopped}
    records = [await keys.queue_record(StreamTransaction(context), queue) for queue in names]
    # Another call may have resumed a queue before its consumers were stopped.
    resumed = {record.name for record in records if record.paused is None}
    await _pause_consumers(context, [one for one in stopped if one[0] in resumed], None)


async def resume(context: NatsContext, queues: Sequence[str]) -> None:
    """Start jobs of these queues again. After a crash between the two steps the server resumes the
    consumers itself when `CONSUMER_PAUSE_MS` is over."""

    async def act(tx: StreamTransaction) -> list[QueuePriority]:
        records = [await keys.queue_record(tx, queue) for queue in dict.fromkeys(queues)]
        paused = [record for record in records if record.paused is not None]
        for record in paused:
            keys.put_queue(tx, replace(record, paused=None))
        return [(record.name, priority) for record in paused for priority in record.priorities]

    stopped = await transact(context, act)
    await _pause_consumers(context, stopped, None)
    if stopped:
        context.notifier.notify({queue for queue, _ in stopped})


async def _pause_consumers(
    context: NatsContext, wanted: Sequence[QueuePriority], until: Moment | None
) -> None:
    await asyncio.gather(
        *(consumers.pause_consumer(context, queue, priority, until) for queue, priority in wanted)
    )


async def hold(context: NatsContext, queues: Sequence[str], key: str, until: When) -> None:
    """Start no job with this resource key in these queues before then."""
    for queue in queues:
        await transact(
            context,
            lambda tx, queue=queue: hold_key(tx, queue, key, until.moment(tx.now)),  # type: ignore[misc]
        )


async def limit(
    context: NatsContext, queues: Sequence[str], key: str | None, limit: StoredLimit | None
) -> None:
    """Set or remove the limit of these queues, or of this key in each of them."""
    for queue in dict.fromkeys(queues):
        if key is None:
            raise NotImplementedError  # to be built on this branch
        if limit is not None and limit.interval_us:
            await consumers.ensure_consumers(context, [(queue, WAKE_SLOT)])
        await limit_key(context, queue, key, limit)


async def beat(context: NatsContext, worker: WorkerView, keep: Wait) -> Moment:
    """Store a worker's heartbeat, which counts for `keep`. Returns the server's time."""
    await context.clock.refresh()
    now = context.clock.now()
    record = WorkerRecord(replace(worker, seen=now), now + keep)
    headers = ROLLUP + TTL % whole_seconds(keep)
    await context.wire.store(
        [OutMessage(context.subjects.worker(worker.id), pack(record), headers)]
    )
    return now


async def leave(context: NatsContext, worker: str) -> None:
    """Remove a worker that stops."""
    await context.wire.store([OutMessage(context.subjects.worker(worker), b"", ROLLUP + TTL % 1)])
