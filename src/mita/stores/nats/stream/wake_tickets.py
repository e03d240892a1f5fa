"""Wake tickets: how jobs that wait for a token are woken when the token comes.

A key at whose rate jobs wait has one ticket of its own, which is due when the next of them may be
woken. It is stored as a ticket of a job is: as a schedule of which the server makes a ticket, or as
a ticket at once if that time is near. One consumer of the queue delivers such tickets, to one store
each, and a claim that gets one wakes as many jobs as there are tokens. So a claim looks neither at
the keys nor at the jobs that wait, however many there are. The server notifies idle workers of a
ticket that it makes; a ticket whose time is near is planned (`tickets.planned_wakes`).

Nothing depends on a wake ticket being there once: a second one wakes nothing, and a reap makes one
again that was lost."""

from functools import partial

from msgspec.structs import replace

from mita.model.gate import Gate
from mita.model.time import SECOND, Moment, Wait
from mita.rules.gates import ONE_MS_US, KeyUse, next_wake_at
from mita.stores.nats.codec import NO_JOB, ResourceKeyRecord, pack

from .clock import as_stamp
from .job_records import SCHEDULE, SCHEDULE_LEAD_MS
from .keys import put_resource_key, resource_key_record, use_of
from .transaction import StreamTransaction

# Tokens that come within this time are given out together, if the burst allows it.
WAKE_TOGETHER_MS: Wait = 25
LOST_WAKE_MS: Wait = 5 * SECOND  # a wake ticket that is so late may be lost


async def arm(tx: StreamTransaction, queue: str, gate: Gate, *, hand_on: bool = False) -> None:
    """Make sure that the key of this gate has a wake ticket, if jobs wait there for its rate. If it
    is to `hand_on`, tokens are left that this store cannot use: any store takes the ticket now."""
    record = await resource_key_record(tx, queue, gate.key)
    use = await use_of(tx, queue, gate.key)
    if not gate.interval_us or not record.may_have_waiters or use.held_until > tx.now:
        return
    if gate.limit is not None and use.holders >= gate.limit:  # the end of a run wakes the next
        return
    at = tx.now if hand_on else _wake_at(gate, use, tx.now)
    if is_armed(record, tx.now) and record.wake_at <= at:
        return
    put_resource_key(tx, replace(record, wake_at=at))
    await _put(tx, queue, gate.key, at, hand_on=hand_on)


async def arm_now(tx: StreamTransaction, queue: str, key: str) -> None:
    """Make sure that a key has a wake ticket, whatever its rate says."""
    record = await resource_key_record(tx, queue, key)
    if not is_armed(record, tx.now):
        put_resource_key(tx, replace(record, wake_at=tx.now))
        await _put(tx, queue, key, tx.now)


def is_armed(key: ResourceKeyRecord, now: Moment) -> bool:
    """True if this key has a wake ticket that is neither much too late nor later than its rate can
    be."""
    longest = max(LOST_WAKE_MS, 2 * key.burst * key.interval_us // ONE_MS_US)
    return now - LOST_WAKE_MS < key.wake_at <= now + longest


def _wake_at(gate: Gate, use: KeyUse, now: Moment) -> Moment:
    """When to wake: a little after the next token, so that several wait for it, but before half of
    the burst is there."""
    half_us = (gate.burst - 1) // 2 * gate.interval_us
    return max(now, next_wake_at(gate, use, now)) + min(WAKE_TOGETHER_MS, half_us // ONE_MS_US)


async def _put(
    tx: StreamTransaction, queue: str, key: str, at: Moment, *, hand_on: bool = False
) -> None:
    subjects = tx.context.subjects
    body = pack(replace(NO_JOB, queue=queue, resource=key, due=at))
    ticket = subjects.wake_ticket(queue, key)
    if not hand_on:
        tx.context.claim_memory.wakes[ticket] = at, queue
    if at - SCHEDULE_LEAD_MS > tx.now:
        headers = SCHEDULE % (as_stamp(at - SCHEDULE_LEAD_MS), ticket.encode())
        tx.put_unfenced(subjects.scheduled_wake(queue, key), body, headers)
        return
    near = subjects.near_wake_ticket(queue, key)
    if await tx.sequence(near) in {0, *tx.wake_seqs}:  # else there is one already
        tx.put_unfenced(near, body)
    announce = tx.context.planned.announce
    tx.after_commit.append(partial(announce, queue, key, at, hand_on=hand_on))
