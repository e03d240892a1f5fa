"""Handing jobs over.

A plain job is claimed by one publish: its home record, as running, if its home is as its ticket
says. That is the fence: whatever a server that crashed or a worker that was slow delivers twice,
one home can be written once. Then the ticket is acknowledged, which takes it out of the line. A
crash between the two: the ticket comes again, meets a newer home, and is dropped. Before both goes
one record that lists the jobs claimed together, for the reaper.

A job with a resource key is claimed, blocked or turned away together with its key's record, in one
atomic batch."""

import asyncio
import logging

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.job import Claim, State, WhenBusy
from mita.model.outcome import Busy
from mita.model.time import HOUR, Moment, Wait

from . import indexes, resources
from .batches import Batches
from .codec import Record, Ref, as_claim, noted, pack
from .context import Context
from .errors import NoAnswer
from .job_records import Place, about_to_fire, fenced, locate
from .messages import Out
from .partition import side_by_side
from .tickets import Ticket, acknowledge
from .tx import Tx, transact

log = logging.getLogger("mita.store")

# jobs with keys in one batch: blocking one is up to five messages of the thousand a batch may have
TOGETHER = 150


def running(record: Record, now: Moment, lease: Wait, worker: str) -> Record:
    return replace(
        record,
        state=State.RUNNING,
        token=record.token + 1,
        worker=worker,
        started=now,
        lease_until=now + lease,
        home=0,
        fires=0,
    )


async def take(
    context: Context,
    batches: Batches,
    tickets: list[Ticket],
    now: Moment,
    lease: Wait,
    worker: str,
    busy: list[Busy],
) -> list[Claim]:
    """Claim these, as far as they are still what they were when they were put in the line. Who is
    sent away from a key is added to `busy`."""
    moving = [
        ticket
        for ticket in tickets
        if about_to_fire(ticket.record.fires, now) and ticket.record.home
    ]
    if moving:  # their homes fire soon and make new tickets of them
        acknowledge(context, moving)
        tickets = [ticket for ticket in tickets if ticket not in moving]
    plain = [ticket for ticket in tickets if ticket.record.resource is None]
    most = context.wire.names_in_one(len(tickets) or 1)
    claims: list[Claim] = []
    for at in range(0, len(plain), most):
        claims += await _take_plain(context, batches, plain[at : at + most], now, lease, worker)
    keyed = [ticket for ticket in tickets if ticket.record.resource is not None]
    taken = await side_by_side(
        keyed,
        _key_of,
        min(most, TOGETHER),
        lambda some: _take_keyed(context, batches, some, lease, worker, busy),
    )
    return claims + [claim for some in taken for claim in some]


def _fitting(context: Context, tickets: list[Ticket], error: Rejected) -> list[Ticket]:
    """Those that can be written. A job that is too large for the server, because its max_payload
    was made smaller since, is left in the line and comes again."""
    fits = [ticket for ticket in tickets if len(pack(ticket.record)) <= context.most]
    if len(fits) == len(tickets):
        raise error
    for ticket in tickets:
        if ticket not in fits:
            log.warning(
                "job %s of %s cannot be claimed: %s", ticket.record.id, ticket.record.task, error
            )
    return fits


def _key_of(ticket: Ticket) -> tuple[str, str | None]:
    return ticket.record.queue, ticket.record.resource


async def _take_plain(
    context: Context, batches: Batches, tickets: list[Ticket], now: Moment, lease: Wait, worker: str
) -> list[Claim]:
    batch = batches.new()
    homes = [context.subjects.home(ticket.record.queue, ticket.record.id) for ticket in tickets]
    records = [running(ticket.record, now, lease, worker) for ticket in tickets]
    messages = [batches.message(batch, now + lease, homes)]
    messages += [
        Out(home, pack(record), fenced(ticket.record.home))
        for home, record, ticket in zip(homes, records, tickets, strict=True)
    ]
    try:
        index, *seqs = await context.wire.store(messages)
    except NoAnswer:
        [index], seqs = await context.wire.store(messages[:1]), [0] * len(tickets)
    except Rejected as error:
        fits = _fitting(context, tickets, error)
        return await _take_plain(context, batches, fits, now, lease, worker) if fits else []
    await context.fail_point("between home and acknowledgement")
    left, orphans = set[int](), False
    if doubtful := [at for at, seq in enumerate(seqs) if not seq]:
        left, orphans = await _look_again(context, tickets, homes, records, seqs, doubtful)
    acknowledge(context, [ticket for at, ticket in enumerate(tickets) if at not in left])
    claims = [
        as_claim(record, now, Ref(home, seq, batch, record))
        for home, record, seq in zip(homes, records, seqs, strict=True)
        if seq
    ]
    if not orphans:
        batches.opened(batch, index, len(claims))
    await context.wire.flush_now()
    return claims


async def _look_again(
    context: Context,
    tickets: list[Ticket],
    homes: list[str],
    records: list[Record],
    seqs: list[int],
    doubtful: list[int],
) -> tuple[set[int], bool]:
    """Their homes were not as the tickets said, or nobody said what became of them. An older home
    is no hindrance; a newer one makes the ticket a stale one, unless it is what we wrote ourselves.

    Gives those of which we still do not know: they are left to come again. And whether one runs
    whose claim was not finished: it may be listed nowhere else, so this listing is left to the
    reaper."""
    found = await locate(context, [tickets[at].record.id for at in doubtful])
    places = {at: found[tickets[at].record.id] for at in doubtful}
    for at, place in places.items():
        seqs[at] = place.home_seq if place.record == records[at] else 0
    now = context.clock.now()
    valid = [at for at in doubtful if not seqs[at] and _stands(tickets[at], places[at], now)]
    messages = [Out(homes[at], pack(records[at]), fenced(places[at].home_seq)) for at in valid]
    for at, seq in zip(valid, await context.wire.store(messages), strict=True):
        seqs[at] = seq
    orphans = any(
        place.record is not None and place.record.state is State.RUNNING
        for place in places.values()
    )
    return {at for at in valid if not seqs[at]}, orphans


def _stands(ticket: Ticket, place: Place, now: Moment) -> bool:
    """Whether this ticket is what is true of its job. One that names a home which is gone has had
    its run, and one whose home is about to fire (again, after a crash of the server) will be
    followed by another."""
    if about_to_fire(place.fires, now):
        return False
    if place.ticket_seq != ticket.seq or place.home_seq > ticket.seq:
        return False
    return ticket.record.home == 0 or place.home_seq != 0


# ---------------------------------------------------------------- jobs with a resource key


async def _take_keyed(
    context: Context,
    batches: Batches,
    tickets: list[Ticket],
    lease: Wait,
    worker: str,
    busy: list[Busy],
) -> list[Claim]:
    batch = batches.new()

    async def act(tx: Tx) -> list[tuple[Place, Moment]]:
        taken, away = await _sort_out(tx, tickets, lease, worker)
        if taken:
            index = batches.message(batch, tx.now + lease, [place.home for place in taken])
            tx.put(index.subject, index.body)
        written.clear()
        written.append(tx)
        turned_away[:] = away
        return [(place, tx.now) for place in taken]

    written: list[Tx] = []
    turned_away: list[Busy] = []
    try:
        taken = await transact(context, act)
    except Rejected as error:
        fits = _fitting(context, tickets, error)
        return await _take_keyed(context, batches, fits, lease, worker, busy) if fits else []
    await context.fail_point("between home and acknowledgement")
    busy += turned_away
    acknowledge(context, tickets)
    seqs = written[0].written
    if taken:
        batches.opened(batch, seqs[context.subjects.claimed(batch)], len(taken))
    await context.wire.flush_now()
    return [
        as_claim(place.record, at, Ref(place.home, seqs[place.home], batch, place.record))
        for place, at in taken
        if place.record is not None
    ]


async def _sort_out(
    tx: Tx, tickets: list[Ticket], lease: Wait, worker: str
) -> tuple[list[Place], list[Busy]]:
    """Start those whose key is free, turn the others away; the started ones, and those."""
    subjects = tx.context.subjects
    around = [
        subject
        for ticket in tickets
        for subject in (
            subjects.queue(ticket.record.queue),
            subjects.key(ticket.record.queue, ticket.record.resource or ""),
            subjects.waiter(
                ticket.record.queue,
                ticket.record.resource or "",
                ticket.record.priority,
                ticket.record.id,
            ),
        )
    ]
    places, _ = await asyncio.gather(
        tx.jobs(ticket.record.id for ticket in tickets), tx.see(around)
    )
    taken: list[Place] = []
    away: list[Busy] = []
    for ticket, place in zip(tickets, places, strict=True):
        if place.record is None or not _stands(ticket, place, tx.now):
            continue
        if await indexes.may_run(tx, place.record):
            await _start(tx, place, lease, worker)
            taken.append(place)
        else:
            away.append(_as_busy(place.record))
            await _turn_away(tx, place, place.record)
    return taken, away


def _as_busy(record: Record) -> Busy:
    return Busy(record.id, record.task, record.queue, record.when_busy is WhenBusy.SKIP)


async def _start(tx: Tx, place: Place, lease: Wait, worker: str) -> None:
    record = place.record
    assert record is not None, "a ticket that stands has a job"  # noqa: S101
    new = running(record, tx.now, lease, worker)
    await indexes.change(
        tx,
        place,
        state=new.state,
        token=new.token,
        worker=worker,
        started=new.started,
        lease_until=new.lease_until,
        home=0,
    )


async def _turn_away(tx: Tx, place: Place, record: Record) -> None:
    """Its key is taken: what the job wished for that case."""
    busy = {"busy": record.busy + 1, "home": 0}
    if record.when_busy is WhenBusy.SKIP:
        line = noted(record, tx.now, "skipped", f"{record.resource} is taken")
        await indexes.finish(tx, place, State.CANCELLED, HOUR, **busy, **line)
        return
    if record.when_busy is WhenBusy.REPLACE:
        await _replace_others(tx, record)
    await indexes.change(
        tx,
        place,
        state=State.BLOCKED,
        **busy,
        **noted(record, tx.now, "blocked", f"{record.resource} is taken"),
    )


async def _replace_others(tx: Tx, record: Record) -> None:
    line = await resources.line_of(tx, record.queue, record.resource or "")
    for place in await tx.jobs(waiter.id for waiter in line):
        older = place.record
        if older is not None and older.state is State.BLOCKED:
            said = noted(older, tx.now, "replaced", f"by {record.id}")
            await indexes.finish(tx, place, State.CANCELLED, HOUR, **said)
