"""Keeping claims, and inheriting those whose worker was lost.

All of it is one publish for each job on its home, fenced by what was read there. A reaper finds
running jobs by the records that list what was claimed together, and removes those that list nothing
any more. A crash between taking jobs over and the removal: the old record is looked at once more by
the next reap."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.job import Claim, State
from mita.model.outcome import Held, Progress
from mita.model.time import Moment, Wait
from mita.ports.store import OnceValue

from . import indexes
from .aside import mend_queue
from .batches import Batches
from .codec import Claimed, Record, Ref, SharedOnceValue, as_claim, pack
from .context import Context
from .job_records import TTL, fenced, fitted, seconds
from .messages import Out, size
from .reading import is_guess, read_claimed, read_memo, read_queue, read_record
from .reads import Found
from .removal import remove_left_tickets, remove_some_time
from .settle import holds
from .sweep import free_keys
from .tx import Tx, transact
from .walk import end_holds

TRIES = 20
Edit: TypeAlias = Callable[[Record], Record]


async def extend(context: Context, claims: Sequence[Claim], lease: Wait) -> list[Held]:
    until = context.clock.now() + lease
    kept = await _rewrite(
        context, [(claim, lambda record: replace(record, lease_until=until)) for claim in claims]
    )
    return [_held(record) for record in kept]


def _held(record: Record | None) -> Held:
    if record is None:
        return Held.LOST
    return Held.CANCEL if record.asked == "cancel" else Held.HELD


async def progress(context: Context, reports: Sequence[Progress]) -> list[bool]:
    latest = {report.claim.id: report for report in reports}

    def edit(report: Progress) -> Edit:
        newest = (
            latest[report.claim.id]
            if latest[report.claim.id].claim.token == report.claim.token
            else report
        )
        return lambda record: replace(record, progress=newest.report)

    written = await _rewrite(context, [(report.claim, edit(report)) for report in reports])
    return [record is not None for record in written]


async def _rewrite(context: Context, edits: Sequence[tuple[Claim, Edit]]) -> list[Record | None]:
    """Edit the records of claims that still hold; None for those that do not."""
    for claim, _ in edits:  # another store may have made the claim
        context.wire.seen = max(
            context.wire.seen, claim.ref.seq if isinstance(claim.ref, Ref) else 0
        )
    results: list[Record | None] = [None] * len(edits)
    left = list(range(len(edits)))
    for _ in range(TRIES):
        left = await _try_rewrite(context, edits, left, results)
        if not left:
            break
        await asyncio.sleep(0.002)
    return results


async def _try_rewrite(
    context: Context,
    edits: Sequence[tuple[Claim, Edit]],
    left: list[int],
    results: list[Record | None],
) -> list[int]:
    homes = {at: context.subjects.home(edits[at][0].queue, edits[at][0].id) for at in left}
    found = {message.subject: message for message in await context.reader.last(set(homes.values()))}
    messages, places, seen = [], [], set()
    again = []
    for at in left:
        claim, edit = edits[at]
        message = found.get(homes[at])
        record = read_record(message.body, message.subject) if message is not None else None
        if message is None or record is None or not _is_held(record, claim):
            continue
        if homes[at] in seen:  # twice in one call: the second is written upon the first
            again.append(at)
            continue
        seen.add(homes[at])
        edited = edit(record)
        changed = Out(message.subject, fitted(context, edited), fenced(message.seq))
        # unless that was made smaller since the job came
        if size(changed) <= context.wire.max_payload:
            results[at] = edited
            messages.append(changed)
            places.append(at)
    for at, seq in zip(places, await context.wire.store(messages), strict=True):
        if not seq:
            results[at] = None
            again.append(at)
    return again


def _is_held(record: Record, claim: Claim) -> bool:
    return record.state is State.RUNNING and record.token == claim.token and not record.gone


# ---------------------------------------------------------------- inheriting


async def reap(
    context: Context, batches: Batches, limit: int, lease: Wait, worker: str
) -> list[Claim]:
    await _end_holds(context)
    await free_keys(context)
    claims: list[Claim] = []
    for _ in range(TRIES):  # again as long as others take what we were about to
        overdue = (await _overdue(context))[: context.wire.names_in_one(limit - len(claims))]
        taken = await _inherit(context, batches, overdue, context.clock.now(), lease, worker)
        claims += taken
        if len(taken) == len(overdue):
            break
    return claims


async def _overdue(context: Context) -> list[tuple[Record, Found]]:
    """The running jobs whose lease has run out, the longest first."""
    now = context.clock.now()
    overdue: dict[str, tuple[Record, Found]] = {}
    for listing in await context.reader.all(context.subjects.all("c")):
        claimed = read_claimed(listing.body) if listing.body else None
        if listing.body and (claimed is None or claimed.until <= now):
            overdue |= {
                home.subject: (record, home)
                for record, home in await _look_through(context, listing, now)
            }
    return sorted(overdue.values(), key=lambda found: (found[0].lease_until or 0, found[0].age))


async def _look_through(
    context: Context, listing: Found, now: Moment
) -> list[tuple[Record, Found]]:
    """The overdue jobs of a listing. It is removed when none of its jobs runs any more, and else
    rewritten with the rest."""
    homes = await _named(context, listing)
    running = [
        (record, home)
        for home in homes
        if (record := read_record(home.body, home.subject)).state is State.RUNNING
    ]
    if not running:
        remove_some_time(context, listing.seq)
        return []
    until = min(record.lease_until or 0 for record, _ in running)
    if until > now:
        left = Claimed(until, tuple(home.subject for _, home in running))
        await context.wire.store([Out(listing.subject, pack(left), fenced(listing.seq))])
    # one that has become too large for the server stays as it is until its max_payload is raised
    # again
    most = context.most
    return [
        (record, home)
        for record, home in running
        if (record.lease_until or 0) <= now and len(home.body) <= most
    ]


async def _named(context: Context, listing: Found) -> list[Found]:
    """The homes that a listing names. One that cannot be read may have named any."""
    claimed = read_claimed(listing.body)
    if claimed is None:
        return await context.reader.all(context.subjects.homes())
    return await context.reader.last(claimed.homes)


async def _inherit(
    context: Context,
    batches: Batches,
    overdue: list[tuple[Record, Found]],
    now: Moment,
    lease: Wait,
    worker: str,
) -> list[Claim]:
    """The heir gets a token of its own, so that whatever the lost worker still says is refused."""
    if not overdue:
        return []
    await remove_left_tickets(context, [record.id for record, _ in overdue])
    batch = batches.new()
    heirs = [
        replace(record, token=record.token + 1, worker=worker, lease_until=now + lease)
        for record, _ in overdue
    ]
    messages = [batches.message(batch, now + lease, [home.subject for _, home in overdue])]
    messages += [
        Out(home.subject, pack(heir), fenced(home.seq))
        for heir, (_, home) in zip(heirs, overdue, strict=True)
    ]
    index, *seqs = await context.wire.store(messages)
    claims = [
        replace(as_claim(heir, now, Ref(home.subject, seq, batch, heir)), lost=record.worker)
        for heir, (record, home), seq in zip(heirs, overdue, seqs, strict=True)
        if seq
    ]
    batches.opened(batch, index, len(claims))
    return claims


async def _end_holds(context: Context) -> None:
    now = context.clock.now()
    for message in await context.reader.all(context.subjects.all("q")):
        record = read_queue(message.body, message.subject)
        if is_guess(record):
            record = await mend_queue(context, record)
        if any(until <= now for until in record.holds.values()):
            await end_holds(context, record.name)


# ---------------------------------------------------------------- memos


async def load_once(context: Context, claim: Claim, name: str, shared: bool) -> bytes | None:
    if not shared:
        record = (await Tx(context).job(claim.id)).record
        return None if record is None else record.memos.get(name)
    found = await context.reader.one(context.subjects.memo(name))
    memo = read_memo(found.body) if found is not None and found.body else None
    return memo.value if memo is not None and memo.until > context.clock.now() else None


async def store_once(context: Context, memo: OnceValue) -> bytes | None:
    return await transact(context, lambda tx: _remember(tx, memo))


async def _remember(tx: Tx, memo: OnceValue) -> bytes | None:
    place = await tx.job(memo.claim.id)
    record = place.record
    if record is None or not holds(place, memo.claim.token):
        return None
    if memo.keep is not None:
        return await _remember_for_all(tx, memo, memo.keep)
    if memo.name not in record.memos:
        _check_room(tx.context, record, memo)
        await indexes.change(tx, place, memos={**record.memos, memo.name: memo.value})
    return record.memos.get(memo.name, memo.value)


def _check_room(context: Context, record: Record, memo: OnceValue) -> None:
    """What a job remembers is part of its record, as its arguments are, and neither is ever cut."""
    taken = (
        len(record.payload)
        + len(record.headers)
        + sum(len(name) + len(value) for name, value in record.memos.items())
    )
    if taken + len(memo.name) + len(memo.value) > context.room:
        raise Rejected(
            f"job {record.id}: {memo.name!r} has a value of {len(memo.value):,} bytes, and "
            "beside its arguments and what it "
            "remembers already there is room for "
            f"{max(0, context.room - taken - len(memo.name)):,}; store it elsewhere and "
            "remember its name, or raise the server's max_payload"
        )


async def _remember_for_all(tx: Tx, memo: OnceValue, keep: Wait) -> bytes:
    there = tx.context.subjects.memo(memo.name)
    body = await tx.body(there)
    standing = read_memo(body) if body else None
    if standing is not None and standing.until > tx.now:
        return standing.value
    if keep > 0:
        tx.put(there, pack(SharedOnceValue(memo.value, tx.now + keep)), TTL % seconds(keep))
    return memo.value
