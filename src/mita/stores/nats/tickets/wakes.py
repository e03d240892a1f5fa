"""Waking jobs that wait for the tokens of a rate: what a claim does with wake tickets.

`stream.wake_tickets` says what a wake ticket is. A claim that gets one starts the woken jobs
itself, as far as it has room for them and no other job can be before them. Otherwise all workers
would compete for their tickets, and for the record of their key, at every token."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from mita.model.job import Claim
from mita.model.time import Wait
from mita.stores.nats.codec import NO_JOB, QueueRecord
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
from .planned_wakes import LATE_MS, WakePlan
from .starts import Starts
from .ticket import Ticket, acknowledge, give_back, give_back_all

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


def late_wakes(plans: Sequence[WakePlan], pulled: Iterable[Ticket]) -> list[Ticket]:
    """Returns wake tickets for these plans, except those that were `pulled`. Each may be with a
    store that died, or not exist any more: its key is opened only if it is found and due. No answer
    to it is possible or needed."""
    have = {key for ticket in pulled for key in _keys(ticket)}
    return [
        Ticket(NO_REPLY, 0, replace(NO_JOB, queue=plan.queue, resource=plan.key, due=plan.due))
        for plan in plans
        if (plan.queue, plan.key) not in have
    ]


class _OpenedKeys(Struct):
    """What one transaction did: the jobs that it starts, how many it woke, and the sequences of the
    wake tickets that it took without having pulled them."""

    starts: Starts
    woken: int = 0
    started: int = 0
    found_seqs: set[int] = field(default_factory=set)


class KeyOpening(Struct):
    """How a claim opens keys: `queues` are as the claim has read them, `most` is how many of the
    woken jobs it starts itself, of the queues `direct`. `left_ready`: afterwards, it has woken jobs
    that it does not start."""

    call: ClaimCall
    queues: Mapping[str, QueueRecord]
    direct: Collection[str]
    most: int
    left_ready: bool = False

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
        hand_on = len(keys) == 1 and keys[0][0] in self.direct
        if hand_on:
            most = max(1, min(most, room))  # more would only wait as tickets
        list_id = context.claim_lists.new_id()
        first = self._prepared(keys[0]) if len(keys) == 1 else None

        async def act(tx: StreamTransaction) -> _OpenedKeys:
            opened = _OpenedKeys(Starts(self.call, tx, list_id))
            tx.at_rate = True
            await asyncio.gather(
                read_for_wake(tx, keys),
                tx.read(context.subjects.near_wake_ticket(*key) for key in keys),
            )
            due = await _still_due(tx, opened, keys, tickets)
            woken = [job for one in due for job in await _wake(tx, *one, most, hand_on=hand_on)]
            opened.woken = len(woken)
            opened.started = await self._start(tx, opened.starts, woken, room)
            if opened.started == len(woken):
                tx.wakeups.clear()  # no other store has anything to do
            opened.starts.put_list()
            return opened

        pulled = [ticket for ticket in tickets if ticket.reply]
        try:
            opened = await transact(context, act, WAKE_TRIES, first)
        except TooManyWriters:  # then this or another store tries again
            give_back_all(context, pulled)
            return []
        acknowledge(context, pulled)
        for seq in opened.found_seqs:
            remove_unconfirmed(context, seq)
        self.left_ready = self.left_ready or opened.started < opened.woken
        claims = opened.starts.claims()
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


async def _still_due(
    tx: StreamTransaction,
    opened: _OpenedKeys,
    keys: Sequence[tuple[str, str]],
    tickets: Sequence[Ticket],
) -> list[tuple[str, str]]:
    """Returns those of these keys that have to be opened. A key has not if another store was faster
    and has made the next wake ticket: then that store is at work, and to compete with it would slow
    both down. A ticket that is due and was not pulled is taken too, and added to `opened`."""
    due = []
    pulled = {key for ticket in tickets if ticket.reply for key in _keys(ticket)}
    tx.wake_seqs = {ticket.seq for ticket in tickets if ticket.reply}
    for key in keys:
        subject = tx.context.subjects.near_wake_ticket(*key)
        seq, body = await tx.sequence(subject), await tx.body(subject)
        if seq in tx.wake_seqs:
            due.append(key)
        elif not body:
            due += [key] if key in pulled else []
        elif decode_job(body, subject).due <= tx.now - (LATE_MS if key in pulled else 0):
            opened.found_seqs.add(seq)
            due.append(key)
    tx.wake_seqs |= opened.found_seqs
    return due


async def _wake(
    tx: StreamTransaction, queue: str, key: str, most: int, *, hand_on: bool
) -> Sequence[LocatedJob]:
    """Wake the jobs at one key. If none is left, its record says so, and the waiters are looked at
    again when that is written."""
    record = await resource_key_record(tx, queue, key)
    woken = Woken(empty=True)
    if record.may_have_waiters:
        put_resource_key(tx, replace(record, wake_at=0))
        woken = await open_key(tx, queue, key, most, hand_on=hand_on)
    if woken.empty:
        record = await resource_key_record(tx, queue, key)
        if record.uncounted:
            put_resource_key(tx, replace(record, uncounted=False))
        tx.after_commit.append(partial(look_again, tx.context, queue, key, tx.wake_seqs))
    return woken.jobs


def _keys(ticket: Ticket) -> list[tuple[str, str]]:
    return [(ticket.record.queue, ticket.record.resource or "")]
