"""The consumers: one for each slot of a queue (`slots`), which deliver its tickets.

The state that a consumer keeps does not matter: a ticket that is delivered twice is refused by the
job's record."""

import asyncio
from collections.abc import Iterable

from msgspec.structs import replace

from mita.errors import StoreError
from mita.model.time import Moment
from mita.stores.nats.client.errors import refused
from mita.stores.nats.client.wire import ANSWER_TIMEOUT_S, NatsWire
from mita.stores.nats.context import NatsContext
from mita.stores.nats.tickets.claim_memory import QueuePriority

from . import keys
from .clock import as_stamp
from .slots import WAKE_SLOT
from .subjects import Subjects
from .transaction import StreamTransaction, transact

# A worker has a ticket for milliseconds. After this time the worker counts as lost, and the ticket
# is delivered to another.
ACK_WAIT_S = 5
# Until a wake ticket is answered, no job at its key is woken: it goes to another worker sooner.
# That two workers have it does no harm.
WAKE_ACK_WAIT_S = 1
MAX_PULLS = 2048  # that may wait at one consumer
NO_CONSUMER_CODE = 10014  # the server's error code: there is no such consumer
_PAUSE_POLL_S = 0.005


async def ensure_consumers(context: NatsContext, wanted: Iterable[QueuePriority]) -> None:
    """Make sure that these queues and priorities have a consumer, and that workers know of it.

    The consumer comes first. After a crash before the queue's record names it, it is not used until
    the next enqueue there. A consumer that the record names is not created again: that would resume
    one that a pause has stopped."""
    for queue, priority in wanted:
        if (queue, priority) in context.consumers:
            continue
        if priority not in (await keys.queue_record(StreamTransaction(context), queue)).priorities:
            await ensure_consumer(context.wire, context.subjects, queue, priority)
            await context.fail_point("between consumer and queue")
            await transact(context, lambda tx, one=(queue, priority): _add_priority(tx, *one))  # type: ignore[misc]
        context.consumers.add((queue, priority))


async def _add_priority(tx: StreamTransaction, queue: str, priority: int) -> None:
    record = await keys.queue_record(tx, queue)
    if priority not in record.priorities:
        priorities = tuple(sorted({*record.priorities, priority}))
        keys.put_queue(tx, replace(record, priorities=priorities))


async def ensure_consumer(wire: NatsWire, subjects: Subjects, queue: str, priority: int) -> None:
    """Create the consumer of one priority of a queue, unless it exists."""
    durable = subjects.consumer(queue, priority)
    ack_wait_s = WAKE_ACK_WAIT_S if priority == WAKE_SLOT else ACK_WAIT_S
    config = {
        "durable_name": durable,
        **_filter(subjects.delivered_by(queue, priority)),
        "ack_policy": "explicit",
        "ack_wait": ack_wait_s * 1_000_000_000,
        "max_deliver": -1,
        "max_ack_pending": -1,
        "max_waiting": MAX_PULLS,
    }
    body = {"stream_name": subjects.stream, "config": config}
    made = await wire.api(f"CONSUMER.DURABLE.CREATE.{subjects.stream}.{durable}", body)
    if problem := made.get("error"):
        raise refused(problem.get("err_code", 0), problem.get("description", ""))


def _filter(wanted: list[str]) -> dict[str, str | list[str]]:
    """Returns the part of a consumer's configuration that says what it delivers."""
    return {"filter_subject": wanted[0]} if len(wanted) == 1 else {"filter_subjects": wanted}


async def pause_consumer(
    context: NatsContext, queue: str, priority: int, until: Moment | None
) -> None:
    """Have a consumer deliver nothing until then; None resumes it. On a cluster the API answers
    before the consumer's leader knows, so the leader itself is asked."""
    consumer = f"{context.subjects.stream}.{context.subjects.consumer(queue, priority)}"
    body = {} if until is None else {"pause_until": as_stamp(until).decode()}
    answer = await context.wire.api(f"CONSUMER.PAUSE.{consumer}", body)
    deadline = asyncio.get_running_loop().time() + ANSWER_TIMEOUT_S
    while not (problem := answer.get("error", {})):
        answer = await context.wire.api(f"CONSUMER.INFO.{consumer}")
        if "error" not in answer and bool(answer.get("paused")) is (until is not None):
            return
        if asyncio.get_running_loop().time() > deadline:
            done = "resumed" if until is None else "paused"
            raise StoreError(
                f"the consumer of queue {queue!r} was not {done} in {ANSWER_TIMEOUT_S:g} s",
                transient=True,
            )
        await asyncio.sleep(_PAUSE_POLL_S)
    if problem.get("err_code") != NO_CONSUMER_CODE:
        raise refused(problem.get("err_code", 0), problem.get("description", ""))


async def delivered(context: NatsContext, sources: Iterable[QueuePriority]) -> bool:
    """True if one of these consumers waits for the answer to a ticket that it has delivered."""
    stream, subjects = context.subjects.stream, context.subjects
    for source in sources:
        found = await context.wire.api(f"CONSUMER.INFO.{stream}.{subjects.consumer(*source)}")
        if found.get("num_ack_pending", 0):
            return True
    return False


async def restore_consumer(wire: NatsWire, subjects: Subjects, queue: str, priority: int) -> None:
    """Create a consumer that does not answer again, if it was deleted."""
    found = await wire.api(f"CONSUMER.INFO.{subjects.stream}.{subjects.consumer(queue, priority)}")
    if found.get("error", {}).get("err_code") == NO_CONSUMER_CODE:
        await ensure_consumer(wire, subjects, queue, priority)
