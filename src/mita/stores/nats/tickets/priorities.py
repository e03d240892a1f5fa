"""Which priority of a queue goes first, if jobs rise while they wait (`NatsStore.ageing`).

The order of jobs is `due - priority * ageing`. Tickets of one slot are in the order of their
arrival, so the first ticket of each priority says how that priority ranks. If the highest priority
goes first, that is believed for a moment; a lower one goes first for a few jobs, and then the first
tickets are compared again. A queue with one priority is not looked at."""

import asyncio
from collections.abc import Sequence

from mita.model.gate import MOST_HOLDERS
from mita.model.time import SECOND, Moment, Wait
from mita.stores.nats.context import NatsContext
from mita.stores.nats.stream.decode import decode_job
from mita.stores.nats.stream.slots import priority_of

LEAD_BELIEVED_MS: Wait = SECOND  # at most, and at most a tenth of `ageing`
FEW_SLOTS = 3  # a claim pulls from each, one after the other
AGED_JOBS = 10  # of a lower priority, until priorities are compared again


async def lead(context: NatsContext, queue: str, slots: Sequence[int]) -> tuple[int, int]:
    """Returns the priority of these slots of a queue that goes first, and for how many jobs."""
    priorities = {priority_of(slot) for slot in slots}
    highest, ageing = max(priorities), context.ageing
    leads, now = context.claim_memory.leads, context.clock.now()
    if ageing is None or len(priorities) == 1 or leads.get((queue, highest), 0) > now:
        return highest, MOST_HOLDERS
    heads = await asyncio.gather(*(_head(context, queue, slot) for slot in slots))
    ranks = [
        (due - priority_of(slot) * ageing, -priority_of(slot))
        for slot, due in zip(slots, heads, strict=True)
        if due is not None
    ]
    first = -min(ranks)[1] if ranks else highest
    if first != highest:
        return first, AGED_JOBS
    leads[queue, highest] = now + min(LEAD_BELIEVED_MS, ageing // 10)
    return highest, MOST_HOLDERS


async def with_tickets(context: NatsContext, queue: str, slots: Sequence[int]) -> list[int]:
    """Returns those of these slots of a queue that have tickets. A few slots are not looked at: to
    pull from each costs no more."""
    if len(slots) <= FEW_SLOTS:
        return list(slots)
    heads = await asyncio.gather(*(_head(context, queue, slot) for slot in slots))
    return [slot for slot, due in zip(slots, heads, strict=True) if due is not None]


async def _head(context: NatsContext, queue: str, slot: int) -> Moment | None:
    """Returns the due time of the first ticket of a slot; None if it has no ticket."""
    found = await context.reader.first(context.subjects.tickets(queue, slot))
    return None if found is None or not found.body else decode_job(found.body, found.subject).due
