"""Claiming the jobs of tickets.

A job without keys is claimed by one publish: its record, as running, which the server
refuses if the job's record is not as the ticket says. So even if a ticket is delivered twice, the
record is written once. Then the ticket is acknowledged, which removes it. After a crash between the
two the ticket is delivered again and ignored, because the record is newer. Before both, a list of
the jobs claimed together is stored, for the reap.

A job whose only key is free is claimed in the same way, once it has its key (`stream.single_keys`).
`take_keyed` claims the other jobs with keys."""

from collections.abc import Mapping
from types import MappingProxyType

from mita.errors import Rejected
from mita.model.job import Claim, State
from mita.model.time import Moment
from mita.rules.gates import keys_of
from mita.stores.nats.client.errors import NoServerAnswer
from mita.stores.nats.client.messages import OutMessage
from mita.stores.nats.codec import ClaimRef, NatsJob, as_claim, pack
from mita.stores.nats.context import NatsContext
from mita.stores.nats.stream.job_records import fenced, is_about_to_fire, locate
from mita.stores.nats.stream.partition import in_parallel
from mita.stores.nats.stream.single_keys import HeldKey, free_keys, hold_free_keys

from .claim_call import ClaimCall, as_running, fitting, is_valid
from .take_keyed import GATED_BATCH_JOBS, KEYED_BATCH_JOBS, take_keyed
from .ticket import Ticket, acknowledge


async def take(call: ClaimCall, tickets: list[Ticket], now: Moment) -> list[Claim]:
    """Claim the jobs of these tickets, as far as the tickets are still valid. Jobs that
    cannot pass a gate are added to `call.busy`."""
    context = call.context
    firing = [
        ticket
        for ticket in tickets
        if is_about_to_fire(ticket.record.schedule_at, now) and ticket.record.record_seq
    ]
    if firing:  # the server makes new tickets of their records soon
        acknowledge(context, firing)
        tickets = [ticket for ticket in tickets if ticket not in firing]
    plain, keyed = _divided(tickets, context.limited)
    most = context.wire.subjects_per_message(len(tickets) or 1)
    claims: list[Claim] = []
    for at in range(0, len(plain), most):
        claims += await _take_plain(call, plain[at : at + most], now)
    if keyed:
        found, keyed = await _take_single(call, keyed, now, most)
        claims += found
    gated = any(ticket.record.gates for ticket in keyed)
    taken = await in_parallel(
        keyed,
        lambda ticket: _shared_keys(ticket.record, context.limited),
        min(most, GATED_BATCH_JOBS if gated else KEYED_BATCH_JOBS),
        lambda part: take_keyed(call, part),
    )
    return claims + [claim for part in taken for claim in part]


def _divided(tickets: list[Ticket], limited: set[str]) -> tuple[list[Ticket], list[Ticket]]:
    """Returns the tickets of jobs that depend on nothing else, and the others: those with keys, and
    those of limited queues."""
    plain: list[Ticket] = []
    keyed: list[Ticket] = []
    for ticket in tickets:
        record = ticket.record
        depends = record.resource is not None or record.gates or record.queue in limited
        (keyed if depends else plain).append(ticket)
    return plain, keyed


def _shared_keys(record: NatsJob, limited: set[str]) -> list[tuple[str, ...]]:
    """Jobs whose claims may write the same records have a value in common."""
    keys: list[tuple[str, ...]]
    keys = [(record.queue, key) for key in keys_of(record.resource, record.gates)]
    return [*keys, (record.queue,)] if record.queue in limited else keys


async def _take_single(
    call: ClaimCall, tickets: list[Ticket], now: Moment, most: int
) -> tuple[list[Claim], list[Ticket]]:
    """Claim jobs whose only key is free, at most one for each key. Returns the claims, and the
    tickets of the other jobs."""
    context = call.context
    first: dict[tuple[str, str], Ticket] = {}
    for ticket in tickets:
        record = ticket.record
        if record.resource is not None and not record.gates and record.queue not in context.limited:
            first.setdefault((record.queue, record.resource), ticket)
    chosen, claims, taken = list(first.values()), list[Claim](), set[int]()
    for at in range(0, len(chosen), most):
        part = chosen[at : at + most]
        held = await hold_free_keys(context, [ticket.record for ticket in part])
        if not held:
            continue
        await context.fail_point("between key and record")
        holding = [ticket for ticket in part if ticket.record.id in held]
        found = await _take_plain(call, holding, now, held)
        claims += found
        taken.update(ticket.seq for ticket in holding)
        for claim in found:
            held.pop(claim.id)
        await free_keys(context, [one._replace(seq=0) for one in held.values()])
    return claims, [ticket for ticket in tickets if ticket.seq not in taken]


async def _take_plain(
    call: ClaimCall,
    tickets: list[Ticket],
    now: Moment,
    held: Mapping[str, HeldKey] = MappingProxyType({}),
) -> list[Claim]:
    """Claim jobs that have no keys, or that hold their key already (`held`, by id)."""
    context, lists = call.context, call.context.claim_lists
    list_id = lists.new_id()
    subjects = [
        context.subjects.record(ticket.record.queue, ticket.record.id) for ticket in tickets
    ]
    records = [as_running(call, ticket.record, now) for ticket in tickets]
    messages = [lists.message(list_id, now + call.lease, subjects)]
    messages += [
        OutMessage(subject, pack(record), fenced(ticket.record.record_seq))
        for subject, record, ticket in zip(subjects, records, tickets, strict=True)
    ]
    try:
        list_seq, *seqs = await context.wire.store(messages)
    except NoServerAnswer:
        [list_seq], seqs = await context.wire.store(messages[:1]), [0] * len(tickets)
    except Rejected as error:
        fits = fitting(context, tickets, error)
        return await _take_plain(call, fits, now, held) if fits else []
    await context.fail_point("between record and acknowledgement")
    unknown, unlisted = set[int](), False
    if refused := [at for at, seq in enumerate(seqs) if not seq]:
        unknown, unlisted = await _retry_refused(context, tickets, records, seqs, refused)
    acknowledge(context, [ticket for at, ticket in enumerate(tickets) if at not in unknown])
    claims = [
        as_claim(
            record, now, ClaimRef(subject, seq, list_id, record, key_seq=_key_seq(held, record))
        )
        for subject, record, seq in zip(subjects, records, seqs, strict=True)
        if seq
    ]
    if not unlisted:
        lists.stored(list_id, list_seq, claims)
    await context.wire.flush_now()
    return claims


def _key_seq(held: Mapping[str, HeldKey], record: NatsJob) -> int:
    return held[record.id].seq if held else 0


async def _retry_refused(
    context: NatsContext,
    tickets: list[Ticket],
    records: list[NatsJob],
    seqs: list[int],
    refused: list[int],
) -> tuple[set[int], bool]:
    """Look at the jobs whose record was refused, or for which no answer came, and claim those whose
    ticket is valid all the same. `seqs` gets the sequences of those that are claimed: an older
    record does not matter; a newer one makes the ticket invalid, unless this call wrote it.

    Returns the positions of the tickets of which nothing is known, so that they must be delivered
    again, and whether a job of this call runs although its claim was not finished. Such a job may
    be on no other list, so this list must stay for the reap."""
    found = await locate(context, [tickets[at].record.id for at in refused])
    located = {at: found[tickets[at].record.id] for at in refused}
    for at, one in located.items():
        seqs[at] = one.seq if one.record == records[at] else 0
    now = context.clock.now()
    valid = [at for at in refused if not seqs[at] and is_valid(tickets[at], located[at], now)]
    messages = [
        OutMessage(
            context.subjects.record(records[at].queue, records[at].id),
            pack(records[at]),
            fenced(located[at].seq),
        )
        for at in valid
    ]
    for at, seq in zip(valid, await context.wire.store(messages), strict=True):
        seqs[at] = seq
    unlisted = any(
        one.record is not None and one.record.state is State.RUNNING for one in located.values()
    )
    return {at for at in valid if not seqs[at]}, unlisted
