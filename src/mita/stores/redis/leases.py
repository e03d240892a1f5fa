"""Extending claims, taking over the jobs of lost workers, and the progress of runs."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from mita.model.job import Claim
from mita.model.outcome import Held, Progress
from mita.model.time import Wait
from mita.rules.readable import BAD, unreadable
from mita.stores.shared.views import as_name

from .codec import first_claim, later_claim
from .context import RedisContext, parts
from .maintenance import oldest_expired, set_aside
from .repeats import deliver
from .scripting.constants import CALL_ITEMS
from .scripting.record_layout import ID


async def extend(context: RedisContext, claims: Sequence[Claim], lease: Wait) -> list[Held]:
    """Keep claims for `lease` from now."""
    held: dict[int, Held] = {}
    for queue, positions in _by_queue(claims).items():
        for part in parts(positions):
            args: list[Any] = []
            for position in part:
                args += (claims[position].id, claims[position].token)
            answers = await context.in_queue("extend", queue, context.now(), lease, *args)
            held.update(zip(part, (Held(answer.decode()) for answer in answers), strict=True))
    return [held[position] for position in range(len(claims))]


def _by_queue(claims: Sequence[Claim]) -> dict[str, list[int]]:
    positions: dict[str, list[int]] = {}
    for position, claim in enumerate(claims):
        positions.setdefault(claim.queue, []).append(position)
    return positions


async def reap(context: RedisContext, limit: int, lease: Wait, worker: str) -> list[Claim]:
    """Take over up to `limit` jobs whose lease is over. Also wakes jobs that wait for a free key,
    and makes the jobs of firings whose process died."""
    await deliver(context)
    queues = await context.queues_and_holds()
    await context.in_each("reap_repair", queues, context.now(), context.keys.notify_channel)
    taken: list[Claim] = []
    # Another worker may reap at the same time and be faster. So look again until nothing is left.
    while len(taken) < limit and (
        expired := await oldest_expired(
            context, "reap_expired", queues, min(limit - len(taken), CALL_ITEMS)
        )
    ):
        taken += await _take_over(context, expired, lease, worker)
    return taken


async def _take_over(
    context: RedisContext, expired: list[tuple[str, bytes]], lease: Wait, worker: str
) -> list[Claim]:
    by_queue: dict[str, list[bytes]] = {}
    for queue, handle in expired:
        by_queue.setdefault(queue, []).append(handle)
    claims: dict[bytes, Claim] = {}
    for queue, handles in by_queue.items():
        args = (context.now(), lease, worker, *handles)
        now, rows = await context.in_queue("reap_take_over", queue, *args)
        for handle, row in zip(handles, rows, strict=True):
            if row is None:
                continue
            try:
                claim = later_claim(first_claim(row[0], queue, now), row[1], row[2])
            except BAD as error:
                bad = (handle[ID], handle, unreadable(str(error)))
                await set_aside(context, queue, [bad])
                continue
            claims[handle] = replace(claim, lost=as_name(row[3]) or None)
    return [claims[handle] for _, handle in expired if handle in claims]


async def progress(context: RedisContext, reports: Sequence[Progress]) -> list[bool]:
    """Store how far runs have come. Returns False for a stale token."""
    stored: dict[int, bool] = {}
    for queue, positions in _by_queue([report.claim for report in reports]).items():
        for part in parts(positions):
            args: list[Any] = []
            for position in part:
                report = reports[position]
                args += (report.claim.id, report.claim.token, report.report)
            answers = await context.in_queue("progress", queue, *args)
            stored.update(zip(part, map(bool, answers), strict=True))
    return [stored[position] for position in range(len(reports))]
