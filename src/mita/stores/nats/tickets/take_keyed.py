"""Claiming jobs with a resource key: each is started, blocked or ended together with the record of
its key, in one atomic batch."""

import asyncio

from mita.errors import Rejected
from mita.model.job import Claim, State
from mita.model.outcome import Busy, TimelineKind
from mita.model.time import Moment
from mita.rules.busy import BUSY_POLICIES, BUSY_RETENTION, busy_note, replaced_note
from mita.stores.nats import resources
from mita.stores.nats.codec import ClaimRef, NatsJob, as_claim, timeline_with
from mita.stores.nats.stream import keys
from mita.stores.nats.stream.job_changes import change, finish
from mita.stores.nats.stream.job_records import LocatedJob
from mita.stores.nats.stream.transaction import StreamTransaction, transact

from .claim_call import ClaimCall, as_running, fitting, is_valid
from .ticket import Ticket, acknowledge

# Blocking a job takes up to five messages, and a batch has at most a thousand.
KEYED_BATCH_JOBS = 150


async def take_keyed(call: ClaimCall, tickets: list[Ticket]) -> list[Claim]:
    """Claim the jobs of these tickets whose key is free. The others are blocked, or as their
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
    claims = [
        as_claim(one.record, at, ClaimRef(one.subject, seqs[one.subject], list_id, one.record))
        for one, at in started
        if one.record is not None
    ]
    if started:
        lists.stored(list_id, seqs[context.subjects.claim_list(list_id)], claims)
    await context.wire.flush_now()
    return claims


async def _start_or_turn_away(
    tx: StreamTransaction, call: ClaimCall, tickets: list[Ticket]
) -> tuple[list[LocatedJob], list[Busy]]:
    """Start jobs whose key is free; block, skip or replace the rest. Returns (started, turned
    away)."""
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
        if await keys.may_run(tx, record):
            await _start(tx, call, located, record)
            started.append(located)
        else:
            turned_away.append(_as_busy(record))
            await _turn_away(tx, located, record)
    return started, turned_away


def _key_subjects(tx: StreamTransaction, record: NatsJob) -> list[str]:
    subjects, queue, key = tx.context.subjects, record.queue, record.resource or ""
    return [
        subjects.queue(queue),
        subjects.resource_key(queue, key),
        subjects.waiter(queue, key, record.priority, record.id),
    ]


def _as_busy(record: NatsJob) -> Busy:
    return Busy(record.id, record.task, record.queue, BUSY_POLICIES[record.when_busy].ends)


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


async def _turn_away(tx: StreamTransaction, located: LocatedJob, record: NatsJob) -> None:
    """The job's key is taken: apply its busy policy (`rules.busy`)."""
    policy = BUSY_POLICIES[record.when_busy]
    changes = {"busy": record.busy + 1, "record_seq": 0}
    changes |= timeline_with(record, tx.now, policy.line, busy_note(record.resource or ""))
    if policy.ends:
        await finish(tx, located, policy.state, BUSY_RETENTION, **changes)
        return
    if policy.replaces:
        await _replace_others(tx, record)
    await change(tx, located, state=policy.state, **changes)


async def _replace_others(tx: StreamTransaction, record: NatsJob) -> None:
    waiters = await resources.waiters_of(tx, record.queue, record.resource or "")
    for located in await tx.jobs(waiter.id for waiter in waiters):
        older = located.record
        if older is not None and older.state is State.BLOCKED:
            note = replaced_note(record.id)
            entry = timeline_with(older, tx.now, TimelineKind.REPLACED, note)
            await finish(tx, located, State.CANCELLED, BUSY_RETENTION, **entry)
