"""Claiming jobs."""

import sqlite3
from collections.abc import Sequence

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.job import Claim
from mita.model.outcome import Busy, ClaimResult, Settlement
from mita.model.time import Moment, Wait

from . import resources
from .codec import read_candidates, to_claim
from .context import HasThreads, SqliteContext, Wanted, as_json
from .limits import queue_states, turns
from .limits.queue_states import QueueState, QueueStates
from .settle import settle, settle_batch

# Jobs of one queue that a claim examines at most: thousands of jobs of a busy key are blocked in
# several claims.
CLAIM_SCAN_JOBS = 1000


async def claim(
    store: HasThreads, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    """Hand out up to `limit` due jobs, queue by queue. A claim alone does not wait for the disk."""
    wanted = Wanted(limit, lease, worker, store.ageing)
    return await store.writer.call(_claim, (queues, wanted), durable=False)


async def settle_and_claim(
    store: HasThreads,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
) -> ClaimResult:
    """Both in one transaction. If it is rejected, the settlements are written in halves."""
    wanted = Wanted(limit, lease, worker, store.ageing)
    if not settlements:
        return await store.writer.call(_claim, (queues, wanted), durable=False)
    try:
        return await store.writer.call(_settle_and_claim, (settlements, queues, wanted))
    except Rejected:
        took = await settle(store, settlements)
    return replace(await store.writer.call(_claim, (queues, wanted), durable=False), took=took)


def _settle_and_claim(
    context: SqliteContext, settlements: Sequence[Settlement], queues: Sequence[str], wanted: Wanted
) -> ClaimResult:
    """Settle first, so that a key that becomes free can be claimed at once."""
    took = settle_batch(context, settlements)
    states = queue_states.load(context)
    if states:
        queue_states.notify_limited(context, states, settlements, took)
    return replace(_claim_from(context, states, queues, wanted), took=took)


def _claim(context: SqliteContext, queues: Sequence[str], wanted: Wanted) -> ClaimResult:
    return _claim_from(context, queue_states.load(context), queues, wanted)


def _claim_from(
    context: SqliteContext, states: QueueStates | None, queues: Sequence[str], wanted: Wanted
) -> ClaimResult:
    """Hand out due jobs. `states`: what stops a queue or a key from starting jobs, if anything."""
    open_queues, more = list(queues), False
    if states is not None:
        open_queues = [queue for queue in queues if queue not in states or not states[queue].paused]
        resources.end_holds(context, open_queues)
        more = resources.wake_by_clock(context, open_queues)
    claims: list[Claim] = []
    busy: list[Busy] = []
    limit = wanted.limit
    for queue in open_queues:
        left = wanted._replace(limit=limit - len(claims)) if claims else wanted
        if states is None or queue not in states:
            found, cut_short = _claim_queue(context, queue, left, busy)
        else:
            found, cut_short = _claim_stopped(context, queue, states[queue], left, busy)
        claims += found
        more = more or cut_short
    if more or (limit and len(claims) >= limit):
        return ClaimResult([], claims, 0, busy)
    moments = [_next_due(context, queue, states, any_due=limit == 0) for queue in open_queues]
    if states is not None or busy:
        now = context.now
        moments += [context.value("claim_next_wake", queue=queue, now=now) for queue in open_queues]
    waits = [max(0, moment - context.now) for moment in moments if moment is not None]
    return ClaimResult([], claims, min(waits, default=None), busy)


def _claim_queue(
    context: SqliteContext, queue: str, wanted: Wanted, busy: list[Busy]
) -> tuple[list[Claim], bool]:
    """The claims, and whether the search was cut short. Jobs that could not pass a gate are added
    to `busy`."""
    now, claims, examined, most = context.now, list[Claim](), 0, CLAIM_SCAN_JOBS
    limit, lease, worker, ageing = wanted
    while len(claims) < limit and examined < CLAIM_SCAN_JOBS:
        want = min(limit - len(claims), most)
        try:
            text = _candidates(context, queue, want, ageing)
        except sqlite3.DataError:  # so many do not fit into one text
            if want <= 1:
                raise
            most = want // 2
            continue
        rows = read_candidates(text)
        examined += len(rows)
        is_last = len(rows) < want
        if any(row[-1] for row in rows):  # a row with rare fields may have a key
            rows = resources.admit(context, queue, rows, busy)
        if rows:
            seqs = as_json([row[0] for row in rows])
            context.run("claim_take", seqs=seqs, now=now, until=now + lease, worker=worker)
            claims += [to_claim(row, now) for row in rows]
        if is_last:
            return claims, False
    return claims, len(claims) < limit


def _candidates(context: SqliteContext, queue: str, limit: int, ageing: Wait | None) -> str:
    """The next due jobs as one text, in the order in which they start."""
    now = context.now
    if ageing is None:
        return str(context.value("claim_candidates", queue=queue, now=now, limit=limit))
    text = context.value("claim_candidates_alike", queue=queue, now=now, limit=limit)
    if text is None:
        wanted = {"queue": queue, "now": now, "limit": limit, "ageing": ageing}
        text = context.value("claim_candidates_aged", **wanted)
    return str(text)


def _claim_stopped(
    context: SqliteContext, queue: str, state: QueueState, wanted: Wanted, busy: list[Busy]
) -> tuple[list[Claim], bool]:
    """Claim from a queue that is limited or has groups."""
    places = queue_states.places(context, queue, state)
    left = wanted._replace(limit=min(wanted.limit, places))
    if left.limit <= 0:
        return [], False
    claim_some = turns.claim_groups if state.has_groups else _claim_queue
    claims, cut_short = claim_some(context, queue, left, busy)
    queue_states.started(context, queue, state, len(claims))
    return claims, cut_short


def _next_due(
    context: SqliteContext, queue: str, states: QueueStates | None, *, any_due: bool
) -> Moment | None:
    """When the next job of a queue may start. `any_due`: check whether one is due already."""
    now = context.now
    state = None if states is None else states.get(queue)
    if state is not None:
        due: Moment | None = context.value("claim_first_due", queue=queue)
        return queue_states.next_start(state, due, now)
    if any_due and context.value("claim_any_due", queue=queue, now=now):
        return now
    moment: Moment | None = context.value("claim_next_due", queue=queue, now=now)
    return moment
