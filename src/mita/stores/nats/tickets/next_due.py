"""When a worker should claim again: `ClaimResult.again`.

No worker depends on it: the server notifies when a job becomes ready."""

from collections.abc import Sequence

from mita.model.job import State
from mita.model.time import SECOND, Moment, Wait
from mita.rules.gates import next_token_at
from mita.stores.nats.codec import QueueRecord
from mita.stores.nats.context import NatsContext
from mita.stores.nats.stream import consumers, keys
from mita.stores.nats.stream.decode import decode_job
from mita.stores.nats.stream.job_records import locate
from mita.stores.nats.stream.queue_use import queue_use
from mita.stores.nats.stream.slots import WAKE_SLOT
from mita.stores.nats.stream.transaction import StreamTransaction

# Records read to find the next due time; a queue with more of them is claimed from again soon.
NEXT_DUE_SCAN_RECORDS = 200
CLAIM_SOON_MS: Wait = SECOND
LARGE_QUEUE_BELIEVED_MS: Wait = 60 * SECOND  # how long the answer for such a queue is believed
LEADERLESS_RETRY_MS: Wait = 100  # until a consumer without a leader is asked again


async def next_claim(
    context: NatsContext, queues: list[QueueRecord], ready_in: Sequence[str]
) -> Wait | None:
    """Returns how long until a job of these queues may be ready, None if none is scheduled, and 0
    if one is ready now in the queues `ready_in`."""
    now = context.clock.now()
    names = {record.name for record in queues}
    if await _is_any_ready(context, ready_in, now):
        return 0
    times = [*context.claim_memory.early_dues(names, now), *await _hold_ends(context, queues)]
    if leaderless := [source for source in context.leaderless if source[0] in names]:
        times.append(now + LEADERLESS_RETRY_MS)
        for source in leaderless:
            await consumers.restore_consumer(context.wire, context.subjects, *source)
    times += await _next_tokens(context, queues)
    for record in queues:
        patterns = [context.subjects.records(record.name)]
        if WAKE_SLOT in record.priorities:
            patterns.append(context.subjects.scheduled_wakes(record.name))
        dues = [await _next_due(context, record.name, pattern, now) for pattern in patterns]
        times += [due for due in dues if due is not None]
    return max(0, min(times) - now) if times else None


async def _hold_ends(context: NatsContext, queues: list[QueueRecord]) -> list[Moment]:
    """Returns the ends of holds on keys that jobs wait for."""
    ends = []
    for record in queues:
        for key, until in record.holds.items():
            tx = StreamTransaction(context)
            held = await keys.resource_key_record(tx, record.name, key)
            if until and held.may_have_waiters:
                ends.append(until)
    return ends


async def _next_due(context: NatsContext, queue: str, pattern: str, now: Moment) -> Moment | None:
    """Returns when the next of these records of a queue is due: of its jobs, or of its wake
    tickets. Exact for a queue with few records, too early for others."""
    changed, memory = context.notifier.changed, context.claim_memory
    believed = memory.next_due.get(pattern)
    if believed is not None and believed[0] > now:
        until, due = believed
        # A large queue is always claimed from again soon: one more job in it changes nothing.
        if queue not in changed or until - now > CLAIM_SOON_MS:
            return now + CLAIM_SOON_MS if due is not None and due <= now else due
    changed.discard(queue)
    found, left = await context.reader.slice(pattern, 1, NEXT_DUE_SCAN_RECORDS)
    records = [decode_job(message.body, message.subject) for message in found]
    dues = [
        record.due
        for record in records
        if record.state is State.QUEUED or (record.gone and record.resource is not None)
    ]
    due = min(dues, default=None)
    if left:
        due = now + CLAIM_SOON_MS if due is None else min(due, now + CLAIM_SOON_MS)
    memory.next_due[pattern] = (now + (LARGE_QUEUE_BELIEVED_MS if left else CLAIM_SOON_MS), due)
    return due


async def _next_tokens(context: NatsContext, queues: list[QueueRecord]) -> list[Moment]:
    """Returns when the rates of limited queues have their next token, if they have none now."""
    moments = []
    for record in queues:
        tx = StreamTransaction(context)
        use = await queue_use(tx, record.name) if record.limited else None
        if use is not None and use.limit.interval_us:
            moments.append(next_token_at(use.limit, use.tat_us, tx.now))
    return [moment for moment in moments if moment > context.clock.now()]


async def _is_any_ready(context: NatsContext, queues: Sequence[str], now: Moment) -> bool:
    for queue in queues:
        async for found in context.reader.scan(context.subjects.tickets(queue)):
            ids = [
                decode_job(message.body, message.subject).id for message in found if message.body
            ]
            for located in (await locate(context, ids)).values():
                record = located.record
                if record is not None and record.state is State.QUEUED and record.due <= now:
                    return True
    return False
