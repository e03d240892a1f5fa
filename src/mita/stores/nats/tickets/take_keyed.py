"""Claiming jobs with keys, and jobs of limited queues: each is started, blocked or ended together
with the records of its keys and its queue, in one atomic batch."""

import asyncio
from functools import partial
from typing import Any

from msgspec import Struct, field

from mita.errors import Rejected
from mita.model.gate import Gate
from mita.model.job import Claim, State
from mita.model.outcome import Busy, TimelineKind
from mita.model.time import SECOND, Wait
from mita.rules.busy import BUSY_RETENTION, RATE_POLICY, BusyPolicy, busy_policy, replaced_note
from mita.rules.gates import keys_of
from mita.stores.nats.codec import NatsJob, timeline_with
from mita.stores.nats.resources import check_blocked
from mita.stores.nats.stream.gates import closed_gate
from mita.stores.nats.stream.job_changes import change, finish
from mita.stores.nats.stream.job_records import LocatedJob
from mita.stores.nats.stream.keys import queue_record, resource_key_record
from mita.stores.nats.stream.queue_use import QueuePlaces, queue_use
from mita.stores.nats.stream.slots import job_slots
from mita.stores.nats.stream.transaction import (
    TRANSACTION_TRIES,
    StreamTransaction,
    TooManyWriters,
    transact,
)
from mita.stores.nats.stream.waiters import waiters_of
from mita.stores.nats.stream.wake_tickets import arm

from .claim_call import ClaimCall, fitting, is_valid
from .starts import Starts
from .ticket import Ticket, acknowledge, give_back, give_back_all

# Blocking a job takes up to five messages, and a batch has at most a thousand. A job with several
# keys takes up to nine.
KEYED_BATCH_JOBS = 150
GATED_BATCH_JOBS = 100
RATE_TRIES = 4
LATE_WAKE_MS: Wait = 100  # after its time a wake ticket counts as late
RATE_GIVE_BACK_MS: Wait = 100  # until tickets that found the record of their rate busy come back


async def take_keyed(
    call: ClaimCall, tickets: list[Ticket], *, only_line: bool = False
) -> list[Claim]:
    """Claim the jobs of these tickets whose gates are all open. The others are blocked, or as their
    `when_busy` says, and added to `call.busy`. `only_line`: start none; the ticket of a job that
    need not wait is given back."""
    context = call.context
    list_id = context.claim_lists.new_id()

    async def act(tx: StreamTransaction) -> _Taken:
        taken = _Taken(Starts(call, tx, list_id), only_line)
        tx.at_rate = all(own_rate(ticket.record) is not None for ticket in tickets)
        await _start_or_turn_away(tx, taken, tickets)
        taken.starts.put_list()
        for queue, key in taken.blocked_at:
            if not tx.writes(context.subjects.resource_key(queue, key)):
                tx.after_commit.append(partial(check_blocked, context, queue, key))
        return taken

    try:
        taken = await transact(context, act, _tries(tickets))
    except TooManyWriters:
        if not _have_rates(tickets):
            raise
        for ticket in tickets:
            give_back(context, ticket, RATE_GIVE_BACK_MS * 1_000_000)
        call.without_token += len(tickets)
        return []
    except Rejected as error:
        fits = fitting(context, tickets, error)
        return await take_keyed(call, fits, only_line=only_line) if fits else []
    await context.fail_point("between record and acknowledgement")
    call.busy += taken.turned_away
    call.without_token += sum(busy.at_rate for busy in taken.turned_away)
    call.lines |= taken.lines
    call.in_line += taken.in_line
    acknowledge(context, [ticket for ticket in tickets if ticket not in taken.surplus])
    call.full.update(taken.full)
    call.has_returned = call.has_returned or (only_line and bool(taken.surplus))
    give_back_all(context, taken.surplus)
    claims = taken.starts.claims()
    await context.wire.flush_now()
    return claims


def _have_rates(tickets: list[Ticket]) -> bool:
    return any(gate.interval_us for ticket in tickets for gate in ticket.record.gates)


def _tries(tickets: list[Ticket]) -> int:
    """Returns how often to try: jobs with a rate are mostly blocked, and while another store blocks
    jobs at the same key, this one can do better than compete with it."""
    return RATE_TRIES if _have_rates(tickets) else TRANSACTION_TRIES


class _Taken(Struct):
    """What one transaction did with tickets. The `surplus` is given back: it found no place in a
    limited queue that is `full`, or it may start although `only_line` is set. `blocked_at` are the
    keys, with their queues, at which jobs wait now, and `lines` those at which so many new jobs
    (`in_line`) wait for a rate."""

    starts: Starts
    only_line: bool
    turned_away: list[Busy] = field(default_factory=list)
    surplus: list[Ticket] = field(default_factory=list)
    full: set[str] = field(default_factory=set)
    blocked_at: set[tuple[str, str]] = field(default_factory=set)
    lines: set[tuple[str, str]] = field(default_factory=set)
    in_line: int = 0


async def _start_or_turn_away(tx: StreamTransaction, taken: _Taken, tickets: list[Ticket]) -> None:
    """Start jobs whose gates are all open, as far as their queue has places; block, skip or replace
    those that meet a closed gate."""
    jobs, _ = await asyncio.gather(
        tx.jobs(ticket.record.id for ticket in tickets),
        tx.read(subject for ticket in tickets for subject in _key_subjects(tx, ticket.record)),
    )
    places = await _places(tx, tickets)
    for ticket, located in zip(tickets, jobs, strict=True):
        record = located.record
        if record is None or not is_valid(ticket, located, tx.now):
            if record is not None and record.blocked_at is not None:
                taken.blocked_at.add((record.queue, record.blocked_at))  # by a store that died
            continue
        of_queue = places.get(record.queue)
        if of_queue is not None and of_queue.left <= 0:
            taken.surplus.append(ticket)
            taken.full.add(record.queue)
        elif (gate := await _line(tx, record)) is not None:
            await _turn_away(tx, taken, located, gate, RATE_POLICY)
        elif (closed := await closed_gate(tx, record)) is not None:
            gate, use = closed
            policy = busy_policy(record.when_busy, gate, use, tx.now)
            await _turn_away(tx, taken, located, gate, policy)
        elif taken.only_line:
            taken.surplus.append(ticket)
        else:
            await taken.starts.start(located, record)
            if of_queue is not None:
                of_queue.take(record.id)
    for of_queue in places.values():
        of_queue.write()


def own_rate(job: NatsJob) -> Gate | None:
    """Returns the gate of a new job that has nothing but one rate; None if it has other gates, ran
    or waited before."""
    if len(job.gates) != 1 or job.resource is not None or job.token or job.busy:
        return None
    return job.gates[0] if job.gates[0].interval_us and job.gates[0].limit is None else None


async def _line(tx: StreamTransaction, job: NatsJob) -> Gate | None:
    """Returns the rate at which a new job waits behind others, although there may be a token for
    it: the wake ticket of the key is about to give the tokens to earlier jobs. Otherwise
    all stores would compete with it for the record of the key. A job that waited before was woken
    for its token."""
    if (gate := own_rate(job)) is None:
        return None
    key = await resource_key_record(tx, job.queue, gate.key)
    if not key.uncounted or key.limit is not None:
        return None
    if not tx.now - LATE_WAKE_MS <= key.wake_at <= tx.now + SECOND:
        return None
    record = await queue_record(tx, job.queue)
    return None if len(job_slots(record.priorities)) > 1 or gate.key in record.holds else gate


async def _places(tx: StreamTransaction, tickets: list[Ticket]) -> dict[str, QueuePlaces]:
    """Returns the places of those queues of these tickets that are limited."""
    queues = {ticket.record.queue for ticket in tickets} & tx.context.limited
    uses = [await queue_use(tx, queue) for queue in queues]
    return {use.queue: QueuePlaces(tx, use) for use in uses if use is not None}


def _key_subjects(tx: StreamTransaction, record: NatsJob) -> list[str]:
    subjects, queue = tx.context.subjects, record.queue
    wanted = [subjects.queue(queue)]
    if queue in tx.context.limited:
        wanted.append(subjects.queue_use(queue))
    keys = keys_of(record.resource, record.gates)
    return [*wanted, *(subjects.resource_key(queue, key) for key in keys)]


async def _turn_away(
    tx: StreamTransaction, taken: _Taken, located: LocatedJob, gate: Gate, policy: BusyPolicy
) -> None:
    """The job cannot pass this gate: apply its busy policy (`rules.busy`)."""
    record = located.record
    assert record is not None, "only a job that is there can be turned away"  # noqa: S101
    at_rate = policy is RATE_POLICY
    if at_rate and own_rate(record) is not None:
        taken.lines.add((record.queue, gate.key))
        taken.in_line += 1
    taken.turned_away.append(Busy(record.id, record.task, record.queue, policy.ends, at_rate))
    changes: dict[str, Any] = {"busy": record.busy + 1, "record_seq": 0}
    changes |= timeline_with(record, tx.now, policy.line, policy.note(gate.key))
    if policy.ends:
        await finish(tx, located, policy.state, BUSY_RETENTION, **changes)
        return
    if policy.replaces:
        taken.turned_away += await _replace_others(tx, record, gate.key)
    taken.blocked_at.add((record.queue, gate.key))
    await change(tx, located, state=policy.state, blocked_at=gate.key, **changes)
    await arm(tx, record.queue, gate)


async def _replace_others(tx: StreamTransaction, record: NatsJob, key: str) -> list[Busy]:
    """End the other jobs that wait at the key where this one has to wait. Returns them."""
    replaced: list[Busy] = []
    waiters, _ = await waiters_of(tx, record.queue, key)
    for located in await tx.jobs(waiter.id for waiter in waiters):
        older = located.record
        if older is not None and older.state is State.BLOCKED:
            note = replaced_note(record.id)
            entry = timeline_with(older, tx.now, TimelineKind.REPLACED, note)
            await finish(tx, located, State.CANCELLED, BUSY_RETENTION, **entry)
            replaced.append(Busy(older.id, older.task, older.queue, ended=True, replaced=True))
    return replaced
