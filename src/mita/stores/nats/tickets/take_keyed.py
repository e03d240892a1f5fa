"""Claiming jobs with keys: each is started, blocked or ended together with the records of its
keys, in one atomic batch."""

import asyncio
from typing import Any

from mita.errors import Rejected
from mita.model.gate import Gate
from mita.model.job import Claim, State
from mita.model.outcome import Busy, TimelineKind
from mita.model.time import Moment
from mita.rules.busy import BUSY_RETENTION, BusyPolicy, busy_policy, replaced_note
from mita.rules.gates import keys_of
from mita.stores.nats import resources
from mita.stores.nats.codec import ClaimRef, NatsJob, as_claim, timeline_with
from mita.stores.nats.stream.gates import closed_gate
from mita.stores.nats.stream.job_changes import change, finish
from mita.stores.nats.stream.job_records import LocatedJob
from mita.stores.nats.stream.transaction import StreamTransaction, transact
from mita.stores.nats.stream.wake_tickets import arm

from .claim_call import ClaimCall, as_running, fitting, is_valid
from .ticket import Ticket, acknowledge

# Blocking a job takes up to five messages, and a batch has at most a thousand. A job with several
# keys takes up to nine.
KEYED_BATCH_JOBS = 150
GATED_BATCH_JOBS = 100


async def take_keyed(call: ClaimCall, tickets: list[Ticket]) -> list[Claim]:
    """Claim the jobs of these tickets whose gates are all open. The others are blocked, or as their
    `when_busy` says, and added to `call.busy`."""
    context, lists = call.context, call.context.claim_lists
    list_id = lists.new_id()

    async def act(tx: StreamTransaction) -> list[tuple[LocatedJob, Moment]]:
        started, turned_away = await _start_or_turn_away(tx, call, tickets)
        if started:
            subjects = [located.subject for located in started]
            listing = lists.message(list_id, tx.now + call.lease, subjects)
            tx.put(listing.subject, listing.body)
        committed[:] = [tx]
        busy[:] = turned_away
        return [(located, tx.now) for located in started]

    committed: list[StreamTransaction] = []
    busy: list[Busy] = []
    try:
        started = await transact(context, act)
    except Rejected as error:
        fits = fitting(context, tickets, error)
        return await take_keyed(call, fits) if fits else []
    await context.fail_point("between record and acknowledgement")
    call.busy += busy
    acknowledge(context, tickets)
    seqs = committed[0].written
    if started:
        lists.stored(list_id, seqs[context.subjects.claim_list(list_id)], len(started))
    await context.wire.flush_now()
    return [
        as_claim(one.record, at, ClaimRef(one.subject, seqs[one.subject], list_id, one.record))
        for one, at in started
        if one.record is not None
    ]


async def _start_or_turn_away(
    tx: StreamTransaction, call: ClaimCall, tickets: list[Ticket]
) -> tuple[list[LocatedJob], list[Busy]]:
    """Start jobs whose gates are all open; block, skip or replace the rest. Returns (started,
    turned away)."""
    jobs, _ = await asyncio.gather(
        tx.jobs(ticket.record.id for ticket in tickets),
        tx.read(subject for ticket in tickets for subject in _key_subjects(tx, ticket.record)),
    )
    started: list[LocatedJob] = []
    turned_away: list[Busy] = []
    for ticket, located in zip(tickets, jobs, strict=True):
        record = located.record
        if record is None or not is_valid(ticket, located, tx.now):
            continue
        closed = await closed_gate(tx, record)
        if closed is None:
            await _start(tx, call, located, record)
            started.append(located)
            continue
        gate, use = closed
        policy = busy_policy(record.when_busy, gate, use, tx.now)
        turned_away.append(Busy(record.id, record.task, record.queue, policy.ends))
        await _turn_away(tx, located, gate, policy)
    return started, turned_away


def _key_subjects(tx: StreamTransaction, record: NatsJob) -> list[str]:
    subjects, queue = tx.context.subjects, record.queue
    wanted = [subjects.queue(queue)]
    for key in keys_of(record.resource, record.gates):
        wanted.append(subjects.resource_key(queue, key))
        wanted.append(subjects.waiter(queue, key, record.priority, record.id))
    return wanted


async def _start(
    tx: StreamTransaction, call: ClaimCall, located: LocatedJob, record: NatsJob
) -> None:
    new = as_running(call, record, tx.now)
    await change(
        tx,
        located,
        state=new.state,
        token=new.token,
        worker=new.worker,
        started=new.started,
        lease_until=new.lease_until,
        record_seq=0,
    )


async def _turn_away(
    tx: StreamTransaction, located: LocatedJob, gate: Gate, policy: BusyPolicy
) -> None:
    """The job cannot pass this gate: apply its busy policy (`rules.busy`)."""
    record = located.record
    assert record is not None, "only a job that is there can be turned away"  # noqa: S101
    changes: dict[str, Any] = {"busy": record.busy + 1, "record_seq": 0}
    changes |= timeline_with(record, tx.now, policy.line, policy.note(gate.key))
    if policy.ends:
        await finish(tx, located, policy.state, BUSY_RETENTION, **changes)
        return
    if policy.replaces:
        await _replace_others(tx, record, gate.key)
    await change(tx, located, state=policy.state, blocked_at=gate.key, **changes)
    await arm(tx, record.queue, gate)


async def _replace_others(tx: StreamTransaction, record: NatsJob, key: str) -> None:
    waiters = await resources.waiters_of(tx, record.queue, key)
    for located in await tx.jobs(waiter.id for waiter in waiters):
        older = located.record
        if older is not None and older.state is State.BLOCKED:
            note = replaced_note(record.id)
            entry = timeline_with(older, tx.now, TimelineKind.REPLACED, note)
            await finish(tx, located, State.CANCELLED, BUSY_RETENTION, **entry)
