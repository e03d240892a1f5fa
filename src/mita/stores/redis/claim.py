"""Claiming due jobs, alone or in the same round trip as settlements."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

from msgspec.structs import replace

from mita.model.job import Claim
from mita.model.outcome import Busy, ClaimResult, Settlement
from mita.model.time import Moment, Wait
from mita.rules.readable import BAD
from mita.stores.shared.apart import turn_apart
from mita.stores.shared.views import as_name

from .codec import first_claim, later_claim
from .context import RedisContext
from .maintenance import set_aside_claimed
from .scripting.constants import CALL_ITEMS
from .settle import call_settle_and_claim, settle, settle_in_one_call

# By position in the answer: live half and progress of the jobs that are not on their first run.
_Pasts: TypeAlias = dict[int, tuple[bytes, bytes | None]]


async def claim(
    context: RedisContext, queues: Sequence[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    """Claim up to `limit` due jobs of these queues."""
    return await settle_and_claim(context, [], queues, limit, lease, worker)


async def settle_and_claim(
    context: RedisContext,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
) -> ClaimResult:
    """Settle, then claim; in one call unless there are too many settlements, or on a cluster."""
    names = list(dict.fromkeys(queues))
    claim_only = partial(_claim, context, names, limit, lease, worker)
    if not context.cluster and len(settlements) <= CALL_ITEMS:
        both = partial(_settle_and_claim, context, settlements, names, limit, lease, worker)
        settle_only = partial(settle_in_one_call, context)
        return await turn_apart(both, settle_only, claim_only, settlements)
    took = await settle(context, settlements)
    return replace(await claim_only(), took=took)


async def _claim(
    context: RedisContext, queues: list[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    if context.cluster:
        return await _claim_on_cluster(context, queues, limit, lease, worker)
    return await _settle_and_claim(context, [], queues, limit, lease, worker)


async def _settle_and_claim(
    context: RedisContext,
    settlements: Sequence[Settlement],
    queues: list[str],
    limit: int,
    lease: Wait,
    worker: str,
    look_at: int = CALL_ITEMS,
) -> ClaimResult:
    took, answer = await call_settle_and_claim(
        context, settlements, queues, limit, lease, worker, look_at
    )
    now, _, shares, fixed, touched, again, _, turned_away = answer
    claims = _claims(queues, shares, fixed, touched, now) if shares else []
    if len(claims) < len(fixed):
        await set_aside_claimed(context, queues, now)
    busy = [
        Busy(as_name(id), as_name(task), queue.decode(), ended == 1, at_rate == 1, replaced == 1)
        for queue, id, task, ended, at_rate, replaced in turned_away
    ]
    return ClaimResult(took, claims, again, busy)


def _claims(
    queues: list[str], shares: list[int], fixed: list[bytes], touched: list[Any], now: Moment
) -> list[Claim]:
    """The claims of all readable records: `shares[n]` of them belong to queue n."""
    pasts = {position - 1: (live, progress) for position, live, progress in touched}
    try:
        return _all_claims(queues, shares, fixed, pasts, now)
    except BAD:
        return list(_readable_claims(queues, shares, fixed, pasts, now))


def _all_claims(
    queues: list[str], shares: list[int], fixed: list[bytes], pasts: _Pasts, now: Moment
) -> list[Claim]:
    claims: list[Claim] = []
    start = 0
    for queue, share in zip(queues, shares, strict=True):
        claims += [first_claim(raw, queue, now) for raw in fixed[start : start + share]]
        start += share
    for position, (live, progress) in pasts.items():
        claims[position] = later_claim(claims[position], live, progress)
    return claims


def _readable_claims(
    queues: list[str], shares: list[int], fixed: list[bytes], pasts: _Pasts, now: Moment
) -> Iterator[Claim]:
    of_queue = [queue for queue, share in zip(queues, shares, strict=True) for _ in range(share)]
    for position, (queue, raw) in enumerate(zip(of_queue, fixed, strict=True)):
        past = {0: pasts[position]} if position in pasts else {}
        try:
            yield from _all_claims([queue], [1], [raw], past, now)
        except BAD:
            continue


async def _claim_on_cluster(
    context: RedisContext, queues: list[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    """On a cluster one call reaches one queue, so this calls queue after queue."""
    claims: list[Claim] = []
    busy: list[Busy] = []
    waits: list[Wait] = []
    for queue in queues:
        left, look_at = limit - len(claims), CALL_ITEMS - len(claims)
        result = await _settle_and_claim(context, [], [queue], left, lease, worker, look_at)
        claims += result.claims
        busy += result.busy
        if limit and len(claims) >= limit:
            return ClaimResult([], claims, 0, busy)
        waits += [] if result.again is None else [result.again]
    return ClaimResult([], claims, min(waits, default=None), busy)
