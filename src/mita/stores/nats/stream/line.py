"""How many jobs come before a job: counted by the server in a queue, read at a key."""

import asyncio

from mita.model.time import Moment, Wait
from mita.stores.nats.codec import NatsJob
from mita.stores.nats.context import NatsContext

from .counts import SlotTickets, slot_tickets
from .decode import decode_waiter
from .job_records import LocatedJob
from .slots import priority_of, slot_of


async def waiters_ahead(context: NatsContext, record: NatsJob) -> int:
    """Returns how many jobs wait before this blocked job at its key."""
    pattern = context.subjects.waiters(record.queue, record.blocked_at or "")
    messages = await context.reader.all(pattern)
    waiters = [decode_waiter(message.body, message.subject) for message in messages if message.body]
    own = (-record.priority, record.due, record.age, record.id)
    return sum((-one.priority, one.due, one.age, one.id) < own for one in waiters)


async def tickets_ahead(context: NatsContext, located: LocatedJob, record: NatsJob) -> int:
    """Returns how many tickets of its queue come before that of this ready job. Those of its own
    slot came before it; of another slot, those that rank before it by the time since when they are
    ready, which is when they were stored."""
    slots = [one for one in await slot_tickets(context) if one.queue == record.queue]
    found = await asyncio.gather(*(_before(context, one, located, record) for one in slots))
    return sum(found)


async def _before(
    context: NatsContext, slot: SlotTickets, located: LocatedJob, record: NatsJob
) -> int:
    """Returns how many tickets of a slot come before that of this job."""
    pattern = context.subjects.tickets(slot.queue, slot.slot)
    if slot.slot == slot_of(record) and located.ticket_seq:
        return max(0, slot.tickets - await context.reader.left(located.ticket_seq, pattern))
    due = _ready_before(record, priority_of(slot.slot), context.ageing)
    if due is None:
        return slot.tickets if priority_of(slot.slot) > record.priority else 0
    return max(0, slot.tickets - await context.reader.left_since(due, pattern))


def _ready_before(record: NatsJob, priority: int, ageing: Wait | None) -> Moment | None:
    """Returns since when a job of this priority must have been ready to come before this one; None
    if that does not matter."""
    if priority == record.priority:
        return record.due
    return None if ageing is None else record.due - (record.priority - priority) * ageing
