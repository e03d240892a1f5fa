"""Waking jobs that wait for the tokens of a rate: what a claim does with wake tickets.

`stream.wake_tickets` says what a wake ticket is. A claim that gets one starts the woken jobs
itself, as far as it has room for them and no other job can be before them. Otherwise all workers
would compete for their tickets, and for the record of their key, at every token."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from mita.model.job import Claim
from mita.model.time import Wait
from mita.stores.nats.codec import QueueRecord
from mita.stores.nats.context import NatsContext
from mita.stores.nats.resources import WAKE_BATCH_JOBS, Woken, look_again, open_key
from mita.stores.nats.stream.decode import decode_job
from mita.stores.nats.stream.gates import closed_gate
from mita.stores.nats.stream.job_records import LocatedJob
from mita.stores.nats.stream.keys import put_resource_key, resource_key_record
from mita.stores.nats.stream.partition import partition
from mita.stores.nats.stream.removal import remove_unconfirmed
from mita.stores.nats.stream.transaction import StreamTransaction, TooManyWriters, transact
from mita.stores.nats.stream.waiters import read_for_wake

from .claim_call import ClaimCall
from .planned_wakes import WakePlan
from .starts import Starts
from .ticket import Ticket, acknowledge, give_back

NO_REPLY = b""  # of a ticket that was read and not delivered
WAKE_BATCH_KEYS = 20
WAKE_TRIES = 20
READ_AHEAD_MS: Wait = 80  # the tokens that come in this time are prepared for


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


async def late_wakes(
    context: NatsContext, plans: Sequence[WakePlan], pulled: Iterable[Ticket]
) -> list[Ticket]:
    """Returns the wake tickets of these plans that are there and due, although they were not
    `pulled`: each may be with a store that died. No answer to them is possible or needed."""
    have = {key for ticket in pulled for key in _keys(ticket)}
    missing = [plan for plan in plans if (plan.queue, plan.key) not in have]
    if not missing:
        return []
    found = await context.reader.last(
        context.subjects.near_wake_ticket(plan.queue, plan.key) for plan in missing
    )
    tickets = [
        Ticket(NO_REPLY, message.seq, decode_job(message.body, message.subject))
        for message in found
        if message.body
    ]
    now = context.clock.now()
    return [ticket for ticket in tickets if ticket.record.resource and ticket.record.due <= now]


class KeyOpening(Struct):
    """How a claim opens keys: `queues` are as the claim has read them, `most` is how many of the
    woken jobs it starts itself, of the queues `direct`."""

    call: ClaimCall
    queues: Mapping[str, QueueRecord]
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
        if len(keys) == 1 and keys[0][0] in self.direct:
            most = max(1, min(most, room))  # more would only wait as tickets
        list_id = context.claim_lists.new_id()
        first = self._prepared(keys[0]) if len(keys) == 1 else None

        async def act(tx: StreamTransaction) -> Starts:
            tx.wake_seqs = {ticket.seq for ticket in tickets}
            await asyncio.gather(
                read_for_wake(tx, keys),
                tx.read(context.subjects.near_wake_ticket(*key) for key in keys),
            )
            woken = [job for one in keys for job in await _wake(tx, *one, most)]
            starts = Starts(self.call, tx, list_id)
            if await self._start(tx, starts, woken, room) == len(woken):
                tx.wakeups.clear()  # no other store has anything to do
            starts.put_list()
            return starts

        try:
            starts = await transact(context, act, WAKE_TRIES, first)
        except TooManyWriters:  # then this or another store tries again
            for ticket in tickets:
                if ticket.reply:
                    give_back(context, ticket, 1)
            return []
        acknowledge(context, [ticket for ticket in tickets if ticket.reply])
        for ticket in tickets:
            if not ticket.reply:
                remove_unconfirmed(context, ticket.seq)
        claims = starts.claims()
        await context.wire.flush_now()
        if len(keys) == 1 and claims:
            context.prepared.read(keys[0], _read_ahead(context, keys[0]), context.clock.now())
        return claims

    def _prepared(self, key: tuple[str, str]) -> StreamTransaction | None:
        """Returns a transaction that has read what this key needs, if this store has one."""
        context, now = self.call.context, self.call.context.clock.now()
        tx = context.prepared.take(key, now)
        record = None if tx is None else tx.keys.get(context.subjects.resource_key(*key))
        # The record of the key is written only if jobs wait there: then it is not an old one.
        if tx is None or record is None or not record.may_have_waiters:
            return None
        tx.now = now
        tx.queues[key[0]] = self.queues[key[0]]  # a hold on the key would be there
        return tx

    async def _start(
        self, tx: StreamTransaction, starts: Starts, woken: list[LocatedJob], room: int
    ) -> int:
        """Start up to `room` of these jobs, and return how many. The others get their tickets."""
        started = 0
        for located in woken:
            record = located.record
            if started >= room or record is None or record.queue not in self.direct:
                continue
            if record.due <= tx.now and await closed_gate(tx, record) is None:
                await starts.start(located, record)
                started += 1
        return started


async def _read_ahead(context: NatsContext, key: tuple[str, str]) -> StreamTransaction:
    """Returns a transaction that has read what a wake ticket of this key soon needs."""
    tx = StreamTransaction(context)
    near = context.subjects.near_wake_ticket(*key)
    await asyncio.gather(read_for_wake(tx, [key], tx.now + READ_AHEAD_MS), tx.read([near]))
    return tx


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
        tx.after_commit.append(partial(look_again, tx.context, queue, key, tx.wake_seqs))
    return woken.jobs


def _keys(ticket: Ticket) -> list[tuple[str, str]]:
    return [(ticket.record.queue, ticket.record.resource or "")]
