"""Claiming jobs."""

import sqlite3
from collections.abc import Sequence

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.job import Claim
from mita.model.outcome import Busy, ClaimResult, Settlement
from mita.model.time import Wait

from . import resources
from .codec import read_candidates, to_claim
from .context import HasThreads, SqliteContext, as_json
from .settle import settle, settle_batch

# Jobs of one queue that a claim examines at most: thousands of jobs of a busy key are blocked in
# several claims.
CLAIM_SCAN_JOBS = 1000


async def settle_and_claim(
    store: HasThreads,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
) -> ClaimResult:
    """Both in one transaction. If it is rejected, the settlements are written in halves. A claim
    alone does not wait for the disk."""
    wanted = queues, limit, lease, worker
    if not settlements:
        return await store.writer.call(claim, wanted, durable=False)
    try:
        return await store.writer.call(_settle_and_claim, (settlements, *wanted))
    except Rejected:
        took = await settle(store, settlements)
    return replace(await store.writer.call(claim, wanted, durable=False), took=took)


def _settle_and_claim(
    context: SqliteContext,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
) -> ClaimResult:
    """Settle first, so that a key that becomes free can be claimed at once."""
    took = settle_batch(context, settlements)
    return replace(claim(context, queues, limit, lease, worker), took=took)


def claim(
    context: SqliteContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    """Hand out up to `limit` due jobs, queue by queue."""
    open_queues = list(queues)
    if context.value("claim_any_stops"):
        paused = {name for (name,) in context.rows("claim_paused")}
        open_queues = [queue for queue in queues if queue not in paused]
        resources.end_holds(context, open_queues)
    claims: list[Claim] = []
    busy: list[Busy] = []
    more = False
    for queue in open_queues:
        found, cut_short = _claim_queue(context, queue, limit - len(claims), lease, worker, busy)
        claims += found
        more = more or cut_short
    if more or (limit and len(claims) >= limit):
        return ClaimResult([], claims, 0, busy)
    return ClaimResult([], claims, _again(context, open_queues, any_due=limit == 0), busy)


def _claim_queue(
    context: SqliteContext, queue: str, limit: int, lease: Wait, worker: str, busy: list[Busy]
) -> tuple[list[Claim], bool]:
    """The claims, and whether the search was cut short. Jobs that found their key busy are added to
    `busy`."""
    now, claims, examined, most = context.now, list[Claim](), 0, CLAIM_SCAN_JOBS
    while len(claims) < limit and examined < CLAIM_SCAN_JOBS:
        want = min(limit - len(claims), most)
        try:
            text = context.value("claim_candidates", queue=queue, now=now, limit=want)
        except sqlite3.DataError:  # so many do not fit into one text
            if want <= 1:
                raise
            most = want // 2
            continue
        rows = read_candidates(text)
        examined += len(rows)
        is_last = len(rows) < want
        if any(row[-1] for row in rows):  # a row with rare fields may have a resource key
            rows = resources.admit(context, queue, rows, busy)
        if rows:
            seqs = as_json([row[0] for row in rows])
            context.run("claim_take", seqs=seqs, now=now, until=now + lease, worker=worker)
            claims += [to_claim(row, now) for row in rows]
        if is_last:
            return claims, False
    return claims, len(claims) < limit


def _again(context: SqliteContext, queues: list[str], *, any_due: bool) -> Wait | None:
    """After which delay a claim may find more. `any_due`: check whether a job is due already."""
    now = context.now
    if any_due and any(context.value("claim_any_due", queue=queue, now=now) for queue in queues):
        return 0
    moments = [context.value("claim_next_due", queue=queue, now=now) for queue in queues]
    return min((moment - now for moment in moments if moment is not None), default=None)
