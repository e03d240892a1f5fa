"""Waking jobs that wait for the tokens of a rate: what a claim does with wake tickets.

`stream.wake_tickets` says what a wake ticket is. A claim that gets one starts the woken jobs
itself, as far as it has room for them and no other job can be before them. Otherwise all workers
would compete for their tickets, and for the record of their key, at every token."""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from mita.model.job import Claim
from mita.stores.nats.context import NatsContext
from mita.stores.nats.resources import WAKE_BATCH_JOBS, Woken, look_again, open_key
from mita.stores.nats.stream.gates import closed_gate
from mita.stores.nats.stream.job_records import LocatedJob
from mita.stores.nats.stream.keys import put_resource_key, resource_key_record
from mita.stores.nats.stream.partition import partition
from mita.stores.nats.stream.transaction import StreamTransaction, TooManyWriters, transact
from mita.stores.nats.stream.waiters import read_for_wake

from .claim_call import ClaimCall
from .starts import Starts
from .ticket import Ticket, acknowledge, give_back

WAKE_BATCH_KEYS = 20
WAKE_TRIES = 20


def due_wakes(
    context: NatsContext, tickets: Iterable[Ticket], queues: Collection[str]
) -> list[Ticket]:
    """Returns the wake tickets of these queues that are due. The others are given back."""
    now, wakes = context.clock.now(), context.claim_memory.wakes
    due = []
    for ticket in tickets:
        queue, at = ticket.record.queue, ticket.record.due
        name = context.subjects.wake_ticket(queue, ticket.record.resource or "")
        if queue in queues and at <= now:
            wakes.pop(name, None)
            due.append(ticket)
        else:
            wakes[name] = at, queue
            give_back(context, ticket, at * 1_000_000 - context.clock.exact_ns())
    return due


class KeyOpening(Struct):
    """How a claim opens keys: `most` is how many of the woken jobs it starts itself, of the queues
    `direct`."""

    call: ClaimCall
    direct: Collection[str]
    most: int

    async def open(self, tickets: list[Ticket]) -> list[Claim]:
        """Wake the jobs at the keys of these wake tickets, as many as there are tokens. Returns the
        claims of those that were started."""
        parts = partition(tickets, _keys, WAKE_BATCH_KEYS)
        room, rest = divmod(self.most, len(parts))
        done = await asyncio.gather(
            *(self._open(part, room + (at < rest)) for at, part in enumerate(parts))
        )
        return [claim for claims in done for claim in claims]

    async def _open(self, tickets: list[Ticket], room: int) -> list[Claim]:
        context = self.call.context
        keys = list(dict.fromkeys(key for ticket in tickets for key in _keys(ticket)))
        most = max(1, WAKE_BATCH_JOBS // len(keys))
        list_id = context.claim_lists.new_id()

        async def act(tx: StreamTransaction) -> Starts:
            tx.wake_seqs = {ticket.seq for ticket in tickets}
            await asyncio.gather(
                read_for_wake(tx, keys),
                tx.read(context.subjects.wake_ticket(*key) for key in keys),
            )
            woken = [job for one in keys for job in await _wake(tx, *one, most)]
            starts = Starts(self.call, tx, list_id)
            await self._start(tx, starts, woken, room)
            starts.put_list()
            return starts

        try:
            starts = await transact(context, act, WAKE_TRIES)
        except TooManyWriters:  # then this or another store tries again
            for ticket in tickets:
                give_back(context, ticket, 1)
            return []
        acknowledge(context, tickets)
        claims = starts.claims()
        await context.wire.flush_now()
        return claims

    async def _start(
        self, tx: StreamTransaction, starts: Starts, woken: list[LocatedJob], room: int
    ) -> None:
        """Start up to `room` of these jobs. The others get their tickets."""
        for located in woken:
            record = located.record
            if room <= 0 or record is None or record.queue not in self.direct:
                continue
            if record.due <= tx.now and await closed_gate(tx, record) is None:
                await starts.start(located, record)
                room -= 1


async def _wake(tx: StreamTransaction, queue: str, key: str, most: int) -> Sequence[LocatedJob]:
    """Wake the jobs at one key. If none is left, its record says so, and the waiters are looked at
    again when that is written."""
    record = await resource_key_record(tx, queue, key)
    woken = Woken(empty=True)
    if record.may_have_waiters:
        put_resource_key(tx, replace(record, wake_at=0))
        woken = await open_key(tx, queue, key, most)
    if woken.empty:
        record = await resource_key_record(tx, queue, key)
        if record.uncounted:
            put_resource_key(tx, replace(record, uncounted=False))
        tx.after_commit.append(partial(look_again, tx.context, queue, key))
    return woken.jobs


def _keys(ticket: Ticket) -> list[tuple[str, str]]:
    return [(ticket.record.queue, ticket.record.resource or "")]
