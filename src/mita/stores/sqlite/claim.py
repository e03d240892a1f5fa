"""Claiming jobs."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from mita.model.job import Claim
from mita.model.outcome import Busy, ClaimResult, Settlement
from mita.model.time import Wait

from . import resources
from .codec import as_json, read_candidates, to_claim
from .context import SqliteContext
from .settle import settle

# Jobs of one queue that a claim examines at most: thousands of jobs of a busy key are blocked in
# several claims.
CLAIM_SCAN_JOBS = 1000


def claim(
    context: SqliteContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    """Hand out up to `limit` due jobs, queue by queue."""
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


def settle_and_claim(
    context: SqliteContext,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
) -> ClaimResult:
    """Settle first, so that a key that becomes free can be claimed at once."""
    took = settle(context, settlements)
    return replace(claim(context, queues, limit, lease, worker), took=took)


def _claim_queue(
    context: SqliteContext, queue: str, limit: int, lease: Wait, worker: str, busy: list[Busy]
) -> tuple[list[Claim], bool]:
    """The claims, and whether the search was cut short. Jobs that found their key busy are added to
    `busy`."""
    claims: list[Claim] = []
    examined = 0
    while len(claims) < limit:
        if examined >= CLAIM_SCAN_JOBS:
            return claims, True
        want, rows = _candidates(context, queue, min(limit - len(claims), CLAIM_SCAN_JOBS))
        examined += len(rows)
        admitted = resources.admit(context, queue, rows, busy)
        if admitted:
            now, seqs = context.now, as_json([row[0] for row in admitted])
            context.run("claim_take", seqs=seqs, now=now, until=now + lease, worker=worker)
            claims += [to_claim(row, now) for row in admitted]
        if len(rows) < want:
            break
    return claims, False


def _candidates(context: SqliteContext, queue: str, want: int) -> tuple[int, list[Any]]:
    """The next due jobs, and how many were asked for: fewer than `want` if so many do not fit into
    one text."""
    while True:
        try:
            text = context.value("claim_candidates", queue=queue, now=context.now, limit=want)
            return want, read_candidates(text)
        except sqlite3.DataError:
            if want <= 1:
                raise
            want //= 2


def _again(context: SqliteContext, queues: list[str], *, any_due: bool) -> Wait | None:
    """After which delay a claim may find more. `any_due`: check whether a job is due already."""
    now = context.now
    if any_due and any(context.value("claim_any_due", queue=queue, now=now) for queue in queues):
        return 0
    moments = [context.value("claim_next_due", queue=queue, now=now) for queue in queues]
    return min((moment - now for moment in moments if moment is not None), default=None)
