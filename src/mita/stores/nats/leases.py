"""Leases: extending them, reporting progress, and taking over jobs whose worker was lost.

Each of these is one publish on a job's record, which the server refuses if the record has changed
since it was read. A reap finds running jobs by the lists of jobs claimed together, and removes
lists of which no job runs any more. After a crash between taking jobs over and the removal, the
next reap looks at the old list once more."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from mita.model.job import Asked, Claim, State
from mita.model.outcome import Held, Progress
from mita.model.time import Moment, Wait

from .client.messages import OutMessage, size
from .codec import ClaimListRecord, ClaimRef, NatsJob, as_claim, pack
from .context import NatsContext
from .maintenance import restore_queue_record
from .resources import end_holds
from .stream.decode import decode_claim_list, decode_job, decode_queue, is_guessed
from .stream.job_records import fenced, pack_fitting
from .stream.queue_use import recount
from .stream.reader import StoredMessage
from .stream.removal import remove_stale_tickets, remove_unconfirmed
from .stream.repair import free_stale_keys
from .stream.subjects import RecordKind

REWRITE_TRIES = 20
REWRITE_DELAY_S = 0.002
REAP_TRIES = 20
Edit: TypeAlias = Callable[[NatsJob], NatsJob]


async def extend(context: NatsContext, claims: Sequence[Claim], lease: Wait) -> list[Held]:
    """Extend the leases of claims. Returns for each whether it is held, lost, or to be
    cancelled."""
    until = context.clock.now() + lease
    kept = await _rewrite(
        context, [(claim, lambda record: replace(record, lease_until=until)) for claim in claims]
    )
    return [_held(record) for record in kept]


def _held(record: NatsJob | None) -> Held:
    if record is None:
        return Held.LOST
    return Held.CANCEL if record.asked is Asked.CANCEL else Held.HELD


async def progress(context: NatsContext, reports: Sequence[Progress]) -> list[bool]:
    """Store progress reports. Returns False for each whose token is stale."""
    latest = {report.claim.id: report for report in reports}

    def edit(report: Progress) -> Edit:
        newest = latest[report.claim.id]
        newest = newest if newest.claim.token == report.claim.token else report
        return lambda record: replace(record, progress=newest.report)

    written = await _rewrite(context, [(report.claim, edit(report)) for report in reports])
    return [record is not None for record in written]


async def _rewrite(
    context: NatsContext, edits: Sequence[tuple[Claim, Edit]]
) -> list[NatsJob | None]:
    """Edit the records of claims. Returns the new records, None for claims that are stale."""
    for claim, _ in edits:  # another store may have made the claim
        if isinstance(claim.ref, ClaimRef):
            context.wire.newest_seq = max(context.wire.newest_seq, claim.ref.seq)
    results: list[NatsJob | None] = [None] * len(edits)
    left = list(range(len(edits)))
    for _ in range(REWRITE_TRIES):
        left = await _try_rewrite(context, edits, left, results)
        if not left:
            break
        await asyncio.sleep(REWRITE_DELAY_S)
    return results


async def _try_rewrite(
    context: NatsContext,
    edits: Sequence[tuple[Claim, Edit]],
    left: list[int],
    results: list[NatsJob | None],
) -> list[int]:
    """Write the edits at the positions `left`. Returns the positions to try again."""
    subjects = {at: context.subjects.record(edits[at][0].queue, edits[at][0].id) for at in left}
    found = {
        message.subject: message for message in await context.reader.last(set(subjects.values()))
    }
    messages, sent, again, seen = [], [], [], set()
    for at in left:
        claim, edit = edits[at]
        message = found.get(subjects[at])
        record = decode_job(message.body, message.subject) if message is not None else None
        if message is None or record is None or not _is_held(record, claim):
            continue
        if subjects[at] in seen:  # twice in one call: the second edit needs the first one's result
            again.append(at)
            continue
        seen.add(subjects[at])
        edited = edit(record)
        changed = OutMessage(message.subject, pack_fitting(context, edited), fenced(message.seq))
        # It fits unless the server's max_payload was lowered since the job was enqueued.
        if size(changed) <= context.wire.max_payload:
            results[at] = edited
            messages.append(changed)
            sent.append(at)
    for at, seq in zip(sent, await context.wire.store(messages), strict=True):
        if not seq:
            results[at] = None
            again.append(at)
    return again


def _is_held(record: NatsJob, claim: Claim) -> bool:
    return record.state is State.RUNNING and record.token == claim.token and not record.gone


# ---------------------------------------------------------------- taking over


async def reap(context: NatsContext, limit: int, lease: Wait, worker: str) -> list[Claim]:
    """Take over up to `limit` jobs whose lease has expired, for this worker. Also ends holds,
    corrects what runs in limited queues, and frees keys that no running job holds."""
    await _look_at_queues(context)
    await free_stale_keys(context)
    claims: list[Claim] = []
    for _ in range(REAP_TRIES):  # again as long as other workers are faster
        most = context.wire.subjects_per_message(limit - len(claims))
        overdue = (await _overdue(context))[:most]
        taken = await _take_over(context, overdue, lease, worker)
        claims += taken
        if len(taken) == len(overdue):
            break
    return claims


async def _overdue(context: NatsContext) -> list[tuple[NatsJob, StoredMessage]]:
    """Returns the running jobs whose lease has expired, the longest overdue first."""
    now = context.clock.now()
    overdue: dict[str, tuple[NatsJob, StoredMessage]] = {}
    for message in await context.reader.all(context.subjects.all(RecordKind.CLAIM_LIST)):
        claim_list = decode_claim_list(message.body) if message.body else None
        if message.body and (claim_list is None or claim_list.until <= now):
            overdue |= {
                found.subject: (record, found)
                for record, found in await _check_list(context, message, claim_list, now)
            }
    return sorted(overdue.values(), key=lambda found: (found[0].lease_until or 0, found[0].age))


async def _check_list(
    context: NatsContext, message: StoredMessage, claim_list: ClaimListRecord | None, now: Moment
) -> list[tuple[NatsJob, StoredMessage]]:
    """Returns the overdue jobs of a claim list. Removes the list if none of its jobs runs, and
    rewrites it if none is overdue. An unreadable list may have named any job."""
    if claim_list is None:
        found = await context.reader.all(context.subjects.records())
    else:
        found = await context.reader.last(claim_list.records)
    decoded = [(decode_job(one.body, one.subject), one) for one in found]
    running = [one for one in decoded if one[0].state is State.RUNNING]
    if not running:
        remove_unconfirmed(context, message.seq)
        return []
    until = min(record.lease_until or 0 for record, _ in running)
    if until > now:
        left = ClaimListRecord(until, tuple(one.subject for _, one in running))
        await context.wire.store([OutMessage(message.subject, pack(left), fenced(message.seq))])
    # A job that is too large since the server's max_payload was lowered waits until it is raised.
    max_bytes = context.max_record
    return [
        (record, one)
        for record, one in running
        if (record.lease_until or 0) <= now and len(one.body) <= max_bytes
    ]


async def _take_over(
    context: NatsContext, overdue: list[tuple[NatsJob, StoredMessage]], lease: Wait, worker: str
) -> list[Claim]:
    """Claim these jobs for this worker. They get a new token, so that everything that the lost
    worker still writes is refused."""
    if not overdue:
        return []
    now, lists = context.clock.now(), context.claim_lists
    await remove_stale_tickets(context, [record.id for record, _ in overdue])
    list_id = lists.new_id()
    taken = [
        replace(record, token=record.token + 1, worker=worker, lease_until=now + lease)
        for record, _ in overdue
    ]
    messages = [lists.message(list_id, now + lease, [found.subject for _, found in overdue])]
    messages += [
        OutMessage(found.subject, pack(record), fenced(found.seq))
        for record, (_, found) in zip(taken, overdue, strict=True)
    ]
    list_seq, *seqs = await context.wire.store(messages)
    claims = [
        replace(
            as_claim(record, now, ClaimRef(found.subject, seq, list_id, record)), lost=old.worker
        )
        for record, (old, found), seq in zip(taken, overdue, seqs, strict=True)
        if seq
    ]
    lists.stored(list_id, list_seq, claims)
    return claims


async def _look_at_queues(context: NatsContext) -> None:
    now = context.clock.now()
    for message in await context.reader.all(context.subjects.all(RecordKind.QUEUE)):
        record = decode_queue(message.body, message.subject)
        if is_guessed(record):
            record = await restore_queue_record(context, record)
        if any(until <= now for until in record.holds.values()):
            await end_holds(context, record.name)
        if record.limited:
            context.limited.add(record.name)
            await recount(context, record.name)
