"""Settling claims.

A job without keys takes one publish: its record, which the server refuses if the record was written
since the claim (a longer lease, a request, a progress report, or another worker's claim). Then it
is read again and settled in a transaction. A job that holds one key alone is settled in the same
way, and then its key is freed (`stream.single_keys`). Other jobs with keys are settled, their keys
freed and the next waiter woken in one atomic batch. A job that is ready again gets its ticket in a
second step; `stream.job_records` says what happens after a crash between the two."""

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.job import State
from mita.model.outcome import Settlement, Verdict
from mita.model.time import Moment
from mita.rules.asked import in_time, kind_after, state_after
from mita.rules.durable import signal_name
from mita.rules.gates import keys_of
from mita.rules.states import TERMINAL
from mita.stores.shared.apart import named, settle_apart

from . import resources
from .client.messages import OutMessage, too_big
from .codec import ClaimRef, NatsJob, timeline_with
from .context import NatsContext
from .stream.gates import freed_keys, give_back, read_gates
from .stream.job_changes import change
from .stream.job_records import (
    TOMBSTONE,
    LocatedJob,
    fenced,
    is_due_soon,
    record_message,
    ticket_message,
)
from .stream.partition import in_parallel
from .stream.queue_use import give_token_back
from .stream.removal import remove_stale_tickets
from .stream.single_keys import HeldKey, free_keys
from .stream.transaction import StreamTransaction, transact
from .stream.waiters import read_for_wake

# A job with a key takes up to six messages, and a batch has at most a thousand. A job with several
# keys takes up to two, and four for each key.
SETTLE_BATCH_JOBS = 150
SETTLE_GATED_JOBS = 40


async def settle(context: NatsContext, settlements: Sequence[Settlement]) -> list[bool]:
    """Settle claims. Returns False for each whose token is stale. Raises Rejected, which names
    them, if some are too large; the others are settled."""
    if not settlements:
        return []
    try:
        took = await _settle(context, settlements)
    except Rejected as error:  # the rejected jobs still run, so they stay on their claim lists
        context.claim_lists.settled(
            one.claim.ref for at, one in enumerate(settlements) if at not in error.rejected
        )
        raise
    context.claim_lists.settled(settlement.claim.ref for settlement in settlements)
    return took


async def _settle(context: NatsContext, settlements: Sequence[Settlement]) -> list[bool]:
    if ids := [one.claim.id for one in settlements if _may_have_stale_ticket(context, one)]:
        await remove_stale_tickets(context, ids)
    took = [False] * len(settlements)
    rejected: dict[int, str] = {}
    plain = [
        at for at, settlement in enumerate(settlements) if _is_plain(settlement, context.limited)
    ]
    changed = await _settle_plain(context, settlements, plain, took, rejected) if plain else []
    left = sorted({*changed, *(set(range(len(settlements))) - set(plain))})

    async def settle_part(part: list[int]) -> None:
        try:
            answers = await settle_apart(
                lambda some: transact(context, lambda tx: _settle_together(tx, some)),
                [settlements[at] for at in part],
            )
        except Rejected as error:
            answers = error.took
            rejected.update({part[at]: why for at, why in error.rejected.items()})
        for at, answer in zip(part, answers, strict=True):
            took[at] = answer

    gated = any(settlements[at].claim.gates for at in left)
    most = SETTLE_GATED_JOBS if gated else SETTLE_BATCH_JOBS
    shared = partial(_shared_keys, limited=context.limited)
    await in_parallel(left, lambda at: shared(settlements[at]), most, settle_part)
    if rejected:
        raise named(took, rejected)
    return took


def _may_have_stale_ticket(context: NatsContext, settlement: Settlement) -> bool:
    """True if the acknowledgement of the job's ticket may be lost: with our connection, or with the
    leader of the consumer, which we do not notice. The second matters only for a job that is queued
    again: the record of an ended job overrules the ticket."""
    return settlement.claim.at <= context.reconnected_at or (
        context.replicas > 1 and settlement.verdict.state is State.QUEUED
    )


def _shared_keys(settlement: Settlement, limited: set[str]) -> Collection[tuple[str, ...]]:
    """Settlements that may write the same records have a value in common."""
    claim = settlement.claim
    shared: list[tuple[str, ...]]
    shared = [(claim.queue, key) for key in keys_of(claim.resource, claim.gates)]
    if claim.queue in limited:
        shared.append((claim.queue,))
    return shared or [(claim.id,)]


def is_simple(settlement: Settlement, limited: set[str]) -> bool:
    """True if this ends a job that holds no key, in a queue that is not `limited`, so that no claim
    can depend on it."""
    claim, verdict = settlement.claim, settlement.verdict
    return (
        claim.resource is None
        and claim.unique is None
        and (not claim.gates or _holds_nothing(settlement))
        and claim.queue not in limited
        and verdict.hold is None
        and verdict.state in TERMINAL
    )


def is_put_back(settlement: Settlement, limited: set[str]) -> bool:
    """True if this puts a job back into its queue, and changes nothing else."""
    verdict = settlement.verdict
    return verdict.state is State.QUEUED and verdict.hold is None and _is_plain(settlement, limited)


def _holds_nothing(settlement: Settlement) -> bool:
    """True if the keys of this job have only rates, and its end changes nothing at them. If one of
    them has a limit by now, the job's record has changed (`resources.limit_key`)."""
    ref, verdict = settlement.claim.ref, settlement.verdict
    if not isinstance(ref, ClaimRef) or not ref.holds_nothing:
        return False
    return verdict.hold is None and not verdict.unstarted


def _held_alone(settlement: Settlement) -> HeldKey | None:
    """Returns the only key of a job that ends, if the record of the key named nothing but this job
    when it started."""
    claim, verdict = settlement.claim, settlement.verdict
    if not isinstance(claim.ref, ClaimRef) or not claim.ref.key_seq or claim.resource is None:
        return None
    if verdict.hold is not None or verdict.unstarted or verdict.state not in TERMINAL:
        return None
    return HeldKey(claim.queue, claim.resource, claim.id, claim.ref.key_seq)


def _is_plain(settlement: Settlement, limited: set[str]) -> bool:
    """True if the job holds no keys, or one alone, its queue is not `limited`, and the claim was
    made by this store, unchanged."""
    claim = settlement.claim
    if claim.unique is not None:
        return False
    if claim.resource is not None and not _held_alone(settlement):
        return False
    if claim.gates and not _holds_nothing(settlement):
        return False
    if claim.queue in limited:
        return False
    if not isinstance(claim.ref, ClaimRef):
        return False
    return (claim.id, claim.token) == (claim.ref.record.id, claim.ref.record.token)


async def _settle_plain(
    context: NatsContext,
    settlements: Sequence[Settlement],
    plain: list[int],
    took: list[bool],
    rejected: dict[int, str],
) -> list[int]:
    """Settle jobs whose record has not changed since the claim, all in one write. Returns the
    positions of the others. A record that is too large is added to `rejected`."""
    now, max_bytes = context.clock.now(), context.max_record
    messages = []
    sent = []
    queued: dict[int, NatsJob] = {}
    for at in plain:
        ref, verdict = settlements[at].claim.ref, settlements[at].verdict
        if _leaves_nothing(ref.record, verdict):
            body, headers = TOMBSTONE
        else:
            record = replace(ref.record, **_changes(ref.record, verdict, now))
            body, headers = record_message(context, record, now)
            if len(body) > max_bytes:
                error = too_big(OutMessage(ref.subject, body), context.wire.max_payload)
                rejected[at] = str(error)
                continue
            if record.state is State.QUEUED:
                queued[at] = record
        sent.append(at)
        messages.append(OutMessage(ref.subject, body, fenced(ref.seq, headers)))
    seqs = dict(zip(sent, await context.wire.store(messages), strict=True))
    for at, seq in seqs.items():
        took[at] = seq > 0
    ended = [_held_alone(settlements[at]) for at, seq in seqs.items() if seq]
    if freed := [held for held in ended if held is not None]:
        await context.fail_point("between record and key")
        await free_keys(context, freed)
    written = [
        (record, settlements[at].claim.ref.subject, seqs[at]) for at, record in queued.items()
    ]
    await _make_ready(context, written, now)
    return [at for at, seq in seqs.items() if not seq]


async def _make_ready(
    context: NatsContext, queued: Sequence[tuple[NatsJob, str, int]], now: Moment
) -> None:
    """Store the tickets of jobs that are queued again. Each has its record, subject and
    sequence."""
    tickets = [
        ticket_message(context, record, subject, seq, now)
        for record, subject, seq in queued
        if seq and is_due_soon(record, now)
    ]
    if tickets:
        await context.fail_point("between record and ticket")
        await context.wire.store(tickets)
    if queued:
        context.notifier.notify({record.queue for record, _, _ in queued})


def _leaves_nothing(record: NatsJob, verdict: Verdict) -> bool:
    """True if the job is removed at once, so that its outcome need not be written."""
    return verdict.keep == 0 and verdict.state in TERMINAL and record.asked is None


async def _settle_together(tx: StreamTransaction, settlements: Sequence[Settlement]) -> list[bool]:
    subjects = tx.context.subjects
    claims = [settlement.claim for settlement in settlements]
    one_key = [
        (claim.queue, claim.resource)
        for claim in claims
        if claim.resource is not None and not claim.gates
    ]
    await asyncio.gather(
        tx.jobs(claim.id for claim in claims),
        tx.read(
            subjects.unique(claim.queue, claim.unique)
            for claim in claims
            if claim.unique is not None
        ),
        read_for_wake(tx, one_key),
    )
    if gated := [settlement for settlement in settlements if settlement.claim.gates]:
        await read_gates(tx, gated)
    return [await _settle_one(tx, settlement) for settlement in settlements]


async def _settle_one(tx: StreamTransaction, settlement: Settlement) -> bool:
    claim, verdict = settlement.claim, settlement.verdict
    located = await tx.job(claim.id)
    record = located.record
    if record is None or not is_held(located, claim.token):
        return False
    if verdict.unstarted:
        await give_back(tx, record)
        if record.queue in tx.context.limited:
            await give_token_back(tx, record)
    keys = keys_of(record.resource, record.gates)
    freed = await freed_keys(tx, record, verdict)
    after = await change(tx, located, **_changes(record, verdict, tx.now))
    if after.state is State.QUEUED:
        tx.wakeups.add(record.queue)
    if keys and verdict.hold is not None:
        await resources.hold_key(tx, record.queue, keys[0], verdict.hold.moment(tx.now))
        freed = [key for key in freed if key != keys[0]]
    for key in freed:
        await resources.wake(tx, record.queue, key, most=1)
    return True


def is_held(located: LocatedJob, token: int) -> bool:
    """True if the claim with this token still holds its job. Checked before everything that a run
    may write."""
    record = located.record
    return record is not None and record.state is State.RUNNING and record.token == token


def _changes(record: NatsJob, verdict: Verdict, now: Moment) -> dict[str, Any]:
    """Returns the fields that a verdict changes. `rules.asked` says what a request changes that was
    made while the job ran."""
    asked = in_time(record.asked, verdict)
    state = state_after(asked, verdict)
    changes: dict[str, Any] = {"state": state, "lease_until": None, "asked": None, "stranded": None}
    if kind := kind_after(record.asked, verdict):
        worker = verdict.worker or record.worker
        changes |= timeline_with(record, now, kind, verdict.note, worker, verdict.failure)
    if verdict.stranded:
        changes["stranded"] = now if record.stranded is None else record.stranded
    if verdict.counts is not None:
        changes[verdict.counts.value] = getattr(record, verdict.counts.value) + 1
    if verdict.error is not None:
        changes["error"] = verdict.error
    if state in TERMINAL:
        keep = verdict.keep if asked is None else record.asked_keep
        changes |= {"finished": now, "expires": now + keep, "gone": keep == 0}
        if state is State.FAILED:
            changes["group"] = verdict.group
        if asked is None:
            changes["result"] = verdict.result if state is State.SUCCEEDED else None
        return changes
    if asked is not None:
        due = record.asked_due
    elif verdict.waits is not None and signal_name(verdict.waits) in record.once_values:
        due = now  # the signal came before the wait
    else:
        due = record.due if verdict.when is None else verdict.when.moment(now)
    if state is State.BLOCKED:  # it waits at the key that it puts on hold
        changes["blocked_at"] = keys_of(record.resource, record.gates)[0]
    return changes | {"due": due, "worker": None}
