"""Putting jobs down.

A plain job (no keys) takes one publish: its home record, if nobody has written it since the claim.
If somebody has (an extension, a wish, a report of progress, or an heir) it is read again and done
with care. Jobs with keys are put down, their keys freed and the next waiter woken in one atomic
batch. A job that goes back to the line now takes a ticket as a second step; a crash between the two
is made good by the server (see `homes`)."""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.job import State
from mita.model.outcome import Settlement, Verdict
from mita.model.time import Moment
from mita.rules.states import TERMINAL
from mita.stores.shared.apart import named, settle_apart

from . import indexes, resources
from .codec import Record, Ref, noted
from .context import Context
from .job_records import GONE, Place, fenced, home_message, soon, ticket_message
from .messages import Out, too_big
from .partition import side_by_side
from .removal import remove_left_tickets
from .tx import Tx, transact

# jobs with keys in one batch: each is up to six messages of the thousand a batch may have
TOGETHER = 150


async def settle(context: Context, settlements: Sequence[Settlement]) -> list[bool]:
    if in_doubt := [one.claim.id for one in settlements if _may_have_left_a_ticket(context, one)]:
        await remove_left_tickets(context, in_doubt)
    took = [False] * len(settlements)
    rejected: dict[int, str] = {}
    plain = [at for at, settlement in enumerate(settlements) if _is_plain(settlement)]
    doubtful = await _settle_plain(context, settlements, plain, took, rejected) if plain else []
    careful = sorted({*doubtful, *(set(range(len(settlements))) - set(plain))})

    async def with_care(part: list[int]) -> None:
        try:
            answers = await settle_apart(
                lambda some: transact(context, lambda tx: _settle_some(tx, some)),
                [settlements[at] for at in part],
            )
        except Rejected as error:
            answers = error.took
            rejected.update({part[at]: why for at, why in error.rejected.items()})
        for at, answer in zip(part, answers, strict=True):
            took[at] = answer

    await side_by_side(careful, lambda at: _meets(settlements[at]), TOGETHER, with_care)
    if rejected:
        raise named(took, rejected)
    return took


def _may_have_left_a_ticket(context: Context, settlement: Settlement) -> bool:
    """Whether the acknowledgement of its ticket may be lost: with our connection, or with the
    consumer's leader, of which we hear nothing. The second matters only for a job that goes back to
    the queue: the home of one that ended stands for it."""
    return settlement.claim.at <= context.returned or (
        context.replicated and settlement.verdict.state is State.QUEUED
    )


def _meets(settlement: Settlement) -> tuple[str, ...]:
    """Settlements that may write to the same records have this in common."""
    claim = settlement.claim
    return (claim.id,) if claim.resource is None else (claim.queue, claim.resource)


def is_simple(settlement: Settlement) -> bool:
    """It ends a job without keys, so that no claim can depend on it."""
    claim, verdict = settlement.claim, settlement.verdict
    return (
        claim.resource is None
        and claim.unique is None
        and verdict.hold is None
        and verdict.state in TERMINAL
    )


def _is_plain(settlement: Settlement) -> bool:
    """Without keys, and as we made it: what somebody else put together is looked at with care."""
    claim = settlement.claim
    if claim.resource is not None or claim.unique is not None or not isinstance(claim.ref, Ref):
        return False
    return (claim.id, claim.token) == (claim.ref.record.id, claim.ref.record.token)


async def _settle_plain(
    context: Context,
    settlements: Sequence[Settlement],
    plain: list[int],
    took: list[bool],
    rejected: dict[int, str],
) -> list[int]:
    """Those whose home is as it was when they were claimed, all at once; gives the others. What
    does not fit into a message is added to `rejected`."""
    now, most = context.clock.now(), context.most
    messages = []
    sent = []
    back: dict[int, Record] = {}  # those that go back to the queue
    for at in plain:
        ref, verdict = settlements[at].claim.ref, settlements[at].verdict
        if _is_forgotten(ref.record, verdict):
            body, headers = GONE
        else:
            record = replace(ref.record, **put_down(ref.record, verdict, now))
            body, headers = home_message(context, record, now)
            if len(body) > most:
                rejected[at] = str(too_big(Out(ref.home, body), context.wire.max_payload))
                continue
            if record.state is State.QUEUED:
                back[at] = record
        sent.append(at)
        messages.append(Out(ref.home, body, fenced(ref.seq, headers)))
    seqs = dict(zip(sent, await context.wire.store(messages), strict=True))
    for at, seq in seqs.items():
        took[at] = seq > 0
    await _queue_up(
        context,
        [(record, settlements[at].claim.ref.home, seqs[at]) for at, record in back.items()],
        now,
    )
    return [at for at, seq in seqs.items() if not seq]


async def _queue_up(context: Context, back: Sequence[tuple[Record, str, int]], now: Moment) -> None:
    tickets = [
        ticket_message(context, record, home, seq, now)
        for record, home, seq in back
        if seq and soon(record, now)
    ]
    if tickets:
        await context.fail_point("between home and ticket")
        await context.wire.store(tickets)
    if back:
        context.ring({record.queue for record, _, _ in back})


def _is_forgotten(record: Record, verdict: Verdict) -> bool:
    """Nothing is kept of it, so nothing has to be written of how it went."""
    return verdict.keep == 0 and verdict.state in TERMINAL and record.asked is None


async def _settle_some(tx: Tx, settlements: Sequence[Settlement]) -> list[bool]:
    subjects = tx.context.subjects
    claims = [settlement.claim for settlement in settlements]
    await asyncio.gather(
        tx.jobs(claim.id for claim in claims),
        tx.see(
            subjects.unique(claim.queue, claim.unique)
            for claim in claims
            if claim.unique is not None
        ),
        resources.look_ahead(
            tx, [(claim.queue, claim.resource) for claim in claims if claim.resource is not None]
        ),
    )
    return [await _settle_one(tx, settlement) for settlement in settlements]


async def _settle_one(tx: Tx, settlement: Settlement) -> bool:
    claim, verdict = settlement.claim, settlement.verdict
    place = await tx.job(claim.id)
    record = place.record
    if not holds(place, claim.token) or record is None:
        return False
    after = await indexes.change(tx, place, **put_down(record, verdict, tx.now))
    if after.state is State.QUEUED:
        tx.rings.add(record.queue)
    if record.resource is not None and verdict.hold is not None:
        await resources.hold(tx, record.queue, record.resource, verdict.hold.moment(tx.now))
    elif record.resource is not None:
        await resources.wake(tx, record.queue, record.resource, most=1)
    return True


def holds(place: Place, token: int) -> bool:
    """Whether a claim with this token still holds its job: the fence before everything that a run
    may write."""
    record = place.record
    return record is not None and record.state is State.RUNNING and record.token == token


def put_down(record: Record, verdict: Verdict, now: Moment) -> dict[str, Any]:
    """What changes in a record: what was asked while it ran comes first, counters and error are as
    the verdict says."""
    changes: dict[str, Any] = {"lease_until": None, "asked": None, "stranded": None}
    kind = verdict.event or (verdict.state.value if record.asked else "")
    if kind:
        changes |= noted(
            record, now, kind, verdict.note, verdict.worker or record.worker, verdict.failure
        )
    if verdict.stranded:
        changes["stranded"] = now if record.stranded is None else record.stranded
    if verdict.counts is not None:
        changes[verdict.counts.value] = getattr(record, verdict.counts.value) + 1
    if verdict.error is not None:
        changes["error"] = verdict.error
    return changes | _where_to(record, verdict, now)


def _where_to(record: Record, verdict: Verdict, now: Moment) -> dict[str, Any]:
    if record.asked == "cancel":
        return _ended(State.CANCELLED, now, record.asked_keep)
    if record.asked == "reschedule":
        return {"state": State.QUEUED, "due": record.asked_due, "worker": None}
    if verdict.state in TERMINAL:
        result = {"result": verdict.result if verdict.state is State.SUCCEEDED else None}
        return _ended(verdict.state, now, verdict.keep) | result
    due = record.due if verdict.when is None else verdict.when.moment(now)
    return {"state": verdict.state, "due": due, "worker": None}


def _ended(state: State, now: Moment, keep: int) -> dict[str, Any]:
    return {"state": state, "finished": now, "expires": now + keep, "gone": keep == 0}
