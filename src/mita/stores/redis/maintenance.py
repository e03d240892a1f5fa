"""Pruning ended jobs, and setting aside records that cannot be read.

A script that meets an unreadable record sets it aside itself. `set_aside` is for records that only
the client can tell to be unreadable."""

from collections.abc import Sequence

from mita.model.time import Moment

from .codec import why_unreadable
from .context import RedisContext
from .scripting.constants import CALL_ITEMS
from .scripting.record_layout import AGE


async def prune(context: RedisContext, limit: int, most: int) -> int:
    """Delete up to `limit` ended jobs: first those whose retention is over, in all queues, then
    succeeded jobs beyond the newest `most` of their queue. Returns how many were deleted."""
    queues = await context.queues()
    deleted, full = 0, True
    while full and deleted < limit:
        wanted = min(limit - deleted, CALL_ITEMS)
        expired = await oldest_expired(context, "prune_expired", queues, wanted)
        gone = 0
        for queue in dict.fromkeys(queue for queue, _ in expired):
            handles = [handle for its_queue, handle in expired if its_queue == queue]
            args = (context.now(), 0, most, *handles)
            gone += (await context.in_queue("prune", queue, *args))[0]
        deleted, full = deleted + gone, gone == wanted
    for queue in queues:
        gone, has_rates = await _prune_surplus(context, queue, limit - deleted, most)
        deleted += gone
        if has_rates:
            await _prune_rates(context, queue)
    await context.in_namespace("prune_shared", context.now())
    return deleted


async def _prune_surplus(
    context: RedisContext, queue: str, limit: int, most: int
) -> tuple[int, bool]:
    """Returns how many jobs were deleted, and whether the queue has rates."""
    deleted, full, has_rates = 0, True, 0
    while full:
        wanted = min(limit - deleted, CALL_ITEMS)
        _, gone, has_rates = await context.in_queue("prune", queue, context.now(), wanted, most)
        deleted, full = deleted + gone, 0 < wanted == gone
    return int(deleted), bool(has_rates)


async def _prune_rates(context: RedisContext, queue: str) -> None:
    """Forget the rates that are full again, a part in each call."""
    start = b"0"
    while True:
        start = await context.in_queue("prune_rates", queue, context.now(), start)
        if start == b"0":
            return


async def oldest_expired(
    context: RedisContext, script: str, queues: Sequence[str], limit: int
) -> list[tuple[str, bytes]]:
    """Up to `limit` jobs of all these queues whose lease or retention is over, as `script` says.
    Each as its queue and its handle; the one that expired first comes first, then by age."""
    found: list[tuple[int, bytes, str, bytes]] = []
    answers = await context.in_each(script, queues, context.now(), limit)
    for queue, rows in zip(queues, answers, strict=True):
        found += [
            (int(end), handle[AGE], queue, handle)
            for handle, end in zip(rows[::2], rows[1::2], strict=True)
        ]
    return [(queue, handle) for _, _, queue, handle in sorted(found)[:limit]]


async def migrate(_context: RedisContext) -> list[str]:
    """Nothing to do: Redis has no schema."""
    return []


async def set_aside_claimed(context: RedisContext, queues: Sequence[str], token: Moment) -> None:
    """Set aside the jobs claimed under this token whose records the client cannot read. If the
    worker dies before this is done, a reap does the same later."""
    for queue in queues:
        rows = await context.in_queue("aside_find_claimed", queue, token)
        bad = [
            (id, handle, why)
            for id, handle, fixed, live in rows
            if (why := why_unreadable(id, fixed, live, queue))
        ]
        await set_aside(context, queue, bad)


async def set_aside(
    context: RedisContext, queue: str, bad: Sequence[tuple[bytes, bytes, str]]
) -> None:
    """End these jobs as failed. Each is given as its id, its handle and the reason."""
    if bad:
        args = [part for one in bad for part in one]
        call = ("aside", queue, context.now(), context.keys.notify_channel)
        await context.in_queue(*call, *args)
