"""Claiming jobs."""

import sqlite3
from collections.abc import Mapping, Sequence
from operator import attrgetter

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.flow import Arrival
from mita.model.job import Claim
from mita.model.outcome import Busy, ClaimResult, Settlement
from mita.model.time import Moment, Wait
from mita.stores.shared.told import not_done, told_by

from . import resources
from .amend import arrive
from .codec import read_candidates, to_claim
from .context import HasThreads, SqliteContext, Wanted, as_json
from .limits import lone_group, queue_states, turns
from .limits.admission import admit
from .limits.lone_group import LoneGroup
from .limits.queue_states import QueueState, Stops
from .settle import settle, settle_batch

# Jobs of one queue that a claim examines at most: thousands of jobs of a busy key are blocked in
# several claims.
CLAIM_SCAN_JOBS = 1000
_arrivals_of = attrgetter("arrivals")
_NO_STATES: Mapping[str, QueueState] = {}


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
        if any(map(_arrivals_of, settlements)):
            raise
        took = await settle(store, settlements)
    return replace(await store.writer.call(_claim, (queues, wanted), durable=False), took=took)


def _settle_and_claim(
    context: SqliteContext, settlements: Sequence[Settlement], queues: Sequence[str], wanted: Wanted
) -> ClaimResult:
    """Settle first, so that a key that becomes free can be claimed at once."""
    took = settle_batch(context, settlements)
    untold: list[Arrival] = []
    if any(map(_arrivals_of, settlements)):
        told = told_by(settlements, took)
        untold = not_done(told, arrive(context, told))
    stops = queue_states.load(context)
    if stops is not None:
        queue_states.notify_limited(context, stops, settlements, took)
    return replace(_claim_from(context, stops, queues, wanted), took=took, untold=untold)


def _claim(context: SqliteContext, queues: Sequence[str], wanted: Wanted) -> ClaimResult:
    return _claim_from(context, queue_states.load(context), queues, wanted)


def _claim_from(
    context: SqliteContext, stops: Stops | None, queues: Sequence[str], wanted: Wanted
) -> ClaimResult:
    """Hand out due jobs. `stops`: what stops jobs from starting, if anything."""
    open_queues, more = list(queues), False
    states = _NO_STATES if stops is None else stops.queues
    if stops is not None:
        open_queues = [queue for queue in queues if queue not in states or not states[queue].paused]
        if stops.any_hold:
            resources.end_holds(context, open_queues)
        more = stops.any_rate and resources.wake_by_clock(context, open_queues)
    claims: list[Claim] = []
    busy: list[Busy] = []
    limit = wanted.limit
    for queue in open_queues:
        left = wanted._replace(limit=limit - len(claims)) if claims else wanted
        if queue not in states:
            found, cut_short = _claim_queue(context, queue, left, busy)
        else:
            found, cut_short = _claim_stopped(context, queue, states[queue], left, busy)
        claims += found
        more = more or cut_short
    if more or (limit and len(claims) >= limit):
        return ClaimResult([], claims, 0, busy)
    moments = [
        _next_due(context, queue, states.get(queue), any_due=limit == 0) for queue in open_queues
    ]
    if busy or (stops is not None and (stops.any_hold or stops.any_rate)):
        now = context.now
        moments += [context.value("claim_next_wake", queue=queue, now=now) for queue in open_queues]
    waits = [max(0, moment - context.now) for moment in moments if moment is not None]
    return ClaimResult([], claims, min(waits, default=None), busy)


def _claim_queue(
    context: SqliteContext,
    queue: str,
    wanted: Wanted,
    busy: list[Busy],
    group: LoneGroup | None = None,
) -> tuple[list[Claim], bool]:
    """The claims, and whether the search was cut short. Jobs that could not pass a gate are added
    to `busy`. `group`: the only group of the queue, if it has groups."""
    now, claims, examined, most = context.now, list[Claim](), 0, CLAIM_SCAN_JOBS
    limit, lease, worker, ageing = wanted
    while len(claims) < limit and examined < CLAIM_SCAN_JOBS:
        want = min(limit - len(claims), most)
        try:
            if group is None:
                text = _candidates(context, queue, want, ageing)
            else:
                text = group.candidates(context, want)
        except sqlite3.DataError:  # so many do not fit into one text
            if want <= 1:
                raise
            most = want // 2
            continue
        rows = read_candidates(text)
        examined += len(rows)
        is_last = len(rows) < want
        if any(row[-1].__class__ is tuple for row in rows):  # rare fields: it may have a key
            rows = admit(context, queue, rows, busy)
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
    claim_some = _claim_groups if state.has_groups else _claim_queue
    claims, cut_short = claim_some(context, queue, left, busy)
    queue_states.started(context, queue, state, len(claims))
    return claims, cut_short


def _claim_groups(
    context: SqliteContext, queue: str, wanted: Wanted, busy: list[Busy]
) -> tuple[list[Claim], bool]:
    """Claim from a queue that has groups."""
    group = lone_group.find(context, queue)
    if group is not None:
        claims, cut_short = _claim_queue(context, queue, wanted, busy, group)
        group.started(context, len(claims))
        if claims or not group.is_mixed:
            return claims, cut_short or group.is_mixed
    return turns.claim_groups(context, queue, wanted, busy)


def _next_due(
    context: SqliteContext, queue: str, state: QueueState | None, *, any_due: bool
) -> Moment | None:
    """When the next job of a queue may start. `any_due`: check whether one is due already."""
    now = context.now
    if state is not None:
        due: Moment | None = context.value("claim_first_due", queue=queue)
        return queue_states.next_start(state, due, now)
    if any_due and context.value("claim_any_due", queue=queue, now=now):
        return now
    moment: Moment | None = context.value("claim_next_due", queue=queue, now=now)
    return moment
