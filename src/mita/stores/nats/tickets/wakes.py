"""Waking jobs that wait for the tokens of a rate: what a claim does with wake tickets.

`stream.wake_tickets` says what a wake ticket is."""

from collections.abc import Iterable

from msgspec.structs import replace

from mita.stores.nats.context import NatsContext
from mita.stores.nats.resources import WAKE_BATCH_JOBS, read_for_wake, wake
from mita.stores.nats.stream.keys import put_resource_key, resource_key_record
from mita.stores.nats.stream.partition import in_parallel
from mita.stores.nats.stream.transaction import StreamTransaction, transact

from .ticket import Ticket, acknowledge, give_back

WAKE_BATCH_KEYS = 20


async def open_keys(context: NatsContext, tickets: Iterable[Ticket], queues: set[str]) -> bool:
    """Wake the jobs at the keys of these wake tickets, as many as there are tokens. Tickets of
    other queues, and those that are not due yet, are given back. Returns True if a key was
    opened."""
    now, early = context.clock.now(), context.claim_memory.early
    due = []
    for ticket in tickets:
        queue, at = ticket.record.queue, ticket.record.due
        name = context.subjects.wake_ticket(queue, ticket.record.resource or "")
        if queue in queues and at <= now:
            early.pop(name, None)
            due.append(ticket)
        else:
            early[name] = at, queue
            give_back(context, ticket, at * 1_000_000 - context.clock.exact_ns())
    await in_parallel(due, _key, WAKE_BATCH_KEYS, lambda part: _open(context, part))
    return bool(due)


def _key(ticket: Ticket) -> list[tuple[str, str]]:
    return [(ticket.record.queue, ticket.record.resource or "")]


async def _open(context: NatsContext, tickets: list[Ticket]) -> None:
    keys = list(dict.fromkeys(key for ticket in tickets for key in _key(ticket)))
    most = max(1, WAKE_BATCH_JOBS // len(keys))

    async def act(tx: StreamTransaction) -> None:
        tx.wake_seqs = {ticket.seq for ticket in tickets}
        await read_for_wake(tx, keys)
        for queue, key in keys:
            record = await resource_key_record(tx, queue, key)
            if record.waiting > 0:
                put_resource_key(tx, replace(record, wake_at=0))
                await wake(tx, queue, key, most)

    await transact(context, act)
    acknowledge(context, tickets)
    await context.wire.flush_now()
