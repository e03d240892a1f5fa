"""What operators control: pausing queues, holding keys, limits; and the heartbeats of workers."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from mita.model.gate import StoredLimit
from mita.model.time import MINUTE, Moment, Wait, When
from mita.model.view import WorkerView
from mita.rules.gates import bounded_level

from .client.messages import OutMessage
from .codec import QueueUseRecord, WorkerRecord, pack
from .context import NatsContext
from .resources import hold_key, limit_key
from .stream import consumers, keys
from .stream.job_records import ROLLUP, TTL, whole_seconds
from .stream.queue_use import count, put_queue_use, queue_use
from .stream.slots import WAKE_SLOT
from .stream.transaction import StreamTransaction, transact
from .tickets.claim_memory import QueuePriority

# How long the consumers of a paused queue deliver nothing: much longer than a claim believes that
# its queue is not paused (`claim.UNPAUSED_BELIEVED_S`).
CONSUMER_PAUSE_MS: Wait = MINUTE
# How long the first limit of a queue stops its consumers: longer than a claim believes that its
# queue has none (`claim.UNPAUSED_BELIEVED_S`).
LIMIT_BARRIER_S = 3.2
# How long a limit waits for workers that were given tickets and do not answer.
DELIVERED_WAIT_S = 2 * consumers.ACK_WAIT_S
_STILL_POLL_S = 0.02


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
            await _limit_queue(context, queue, limit)
            continue
        if limit is not None and limit.interval_us:
            await consumers.ensure_consumers(context, [(queue, WAKE_SLOT)])
        await limit_key(context, queue, key, limit)


async def _limit_queue(context: NatsContext, queue: str, limit: StoredLimit | None) -> None:
    """Set or remove the limit of a queue. The first limit of a queue stops its consumers until no
    claim can believe any more that there is none, and until the running jobs are counted."""
    uncounted = await transact(context, lambda tx: _put_limit(tx, queue, limit))
    if limit is None:
        context.limited.discard(queue)
    else:
        context.limited.add(queue)
    if uncounted is not None:
        await _stand_still(context, uncounted)
        await count(context, queue)
        record = await keys.queue_record(StreamTransaction(context), queue)
        if record.paused is None:
            await _pause_consumers(context, uncounted, None)
    context.notifier.notify({queue})


async def _put_limit(
    tx: StreamTransaction, queue: str, limit: StoredLimit | None
) -> list[QueuePriority] | None:
    """Write a limit. Returns None if it is in force with that. If the running jobs must be counted
    first, returns the consumers that must be stopped for it."""
    record, use = await keys.queue_record(tx, queue), await queue_use(tx, queue)
    keys.put_queue(tx, replace(record, limited=limit is not None))
    if limit is None:
        tx.remove(tx.context.subjects.queue_use(queue))
        return None
    level_us = use.tat_us if use is not None and limit.interval_us else 0
    new = QueueUseRecord(queue, limit, tat_us=bounded_level(limit, level_us, tx.now), since=tx.now)
    if not record.priorities or (limit.concurrency is None and use is not None):
        put_queue_use(tx, replace(new, counted=True))
        return None
    if use is not None and use.counted and use.limit.concurrency is not None:
        put_queue_use(tx, replace(new, counted=True, running=use.running))
        return None
    put_queue_use(tx, new)
    # If there is a limit already, every claim writes this record, and none need be stopped.
    return [] if use is not None else [(queue, slot) for slot in record.priorities]


async def _stand_still(context: NatsContext, stopped: Sequence[QueuePriority]) -> None:
    """Stop these consumers, and wait until no claim believes what it read before, and until the
    tickets that were delivered before are claimed or given back."""
    if not stopped:
        return
    await _pause_consumers(context, stopped, context.clock.now() + CONSUMER_PAUSE_MS)
    loop = asyncio.get_running_loop()
    given_up = loop.time() + DELIVERED_WAIT_S
    await asyncio.sleep(LIMIT_BARRIER_S)
    while loop.time() < given_up:
        if not await consumers.delivered(context, stopped):
            return
        await asyncio.sleep(_STILL_POLL_S)


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
