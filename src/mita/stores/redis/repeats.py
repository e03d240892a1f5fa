"""Stored rules that make jobs, and the lock that one scheduler has."""

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from mita.model.job import NewJob
from mita.model.repeat import DueRepeats, Firing, Repeat
from mita.model.time import Moment, Wait
from mita.rules.readable import BAD

from .codec import as_repeat
from .context import RedisContext, parts
from .enqueue import fire_args, insert
from .scripting.constants import CALL_ITEMS

log = logging.getLogger("mita.store")

DELIVERY_TIMEOUT_MS = 5000  # after this, another process makes the jobs of a firing
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[NewJob]).decode


async def put_repeat(context: RedisContext, repeat: Repeat) -> Repeat:
    """Insert a repeat, or replace its spec and cursor. Returns it as stored."""
    row = await context.in_namespace(
        "put_repeat",
        repeat.key,
        repeat.spec,
        _or_empty(repeat.cursor),
        repeat.state.value,
        repeat.reason,
        repeat.revision,
        repeat.count,
        _or_empty(repeat.last),
        context.keys.notify_channel,
    )
    return as_repeat(row)


def _or_empty(moment: Moment | None) -> Moment | str:
    return "" if moment is None else moment


async def remove_repeats(context: RedisContext, keys: Sequence[str]) -> list[bool]:
    """Delete repeats. Returns False for one that was not stored."""
    channel = context.keys.notify_channel
    answers = await context.in_namespace("remove_repeats", channel, *keys, repeatable=False)
    return [bool(removed) for removed in answers]


async def pause_repeats(context: RedisContext, keys: Sequence[str], reason: str = "") -> list[bool]:
    """Pause active repeats. Returns False for the others."""
    args = context.keys.notify_channel, reason
    answers = await context.in_namespace("pause_repeats", *args, *keys, repeatable=False)
    return [bool(paused) for paused in answers]


async def resume_repeats(context: RedisContext, keys: Sequence[str]) -> list[bool]:
    """Resume paused repeats. Returns False for the others."""
    channel = context.keys.notify_channel
    answers = await context.in_namespace("resume_repeats", channel, *keys, repeatable=False)
    return [bool(resumed) for resumed in answers]


async def report_repeat(context: RedisContext, key: str, failed: bool) -> int:
    """Count a job that ended. Returns how many failures in a row there are now."""
    return int(await context.in_namespace("report_repeat", key, int(failed), repeatable=False))


async def due_repeats(context: RedisContext, limit: int) -> DueRepeats:
    """Up to `limit` repeats whose cursor has come, and when the next one is due."""
    args = (context.now(), min(limit, CALL_ITEMS))
    now, rows, following = await context.in_namespace("due_repeats", *args)
    return DueRepeats(now, [as_repeat(row) for row in rows], following)


async def find_repeats(context: RedisContext, keys: Sequence[str]) -> list[Repeat | None]:
    """The repeats with these keys; None for one that is not stored."""
    answers = [await context.in_namespace("find_repeats", *part) for part in parts(keys)]
    return [None if row is None else as_repeat(row) for rows in answers for row in rows]


async def list_repeats(context: RedisContext) -> list[Repeat]:
    """All repeats, by key."""
    found: dict[str, Repeat] = {}
    cursor: Any = "0"
    while True:
        cursor, rows = await context.in_namespace("list_repeats", cursor)
        found.update((repeat.key, repeat) for repeat in map(as_repeat, rows))
        if cursor == b"0":
            return [found[key] for key in sorted(found)]


async def fire(context: RedisContext, firings: Sequence[Firing]) -> list[bool]:
    """Apply firings, as many in one call as their jobs allow. On a cluster the jobs are on other
    nodes, so each firing is a call of its own. Returns False where another scheduler was faster."""
    if context.cluster:
        return [await _fire_on_cluster(context, firing) for firing in firings]
    won: list[bool] = []
    together: list[Firing] = []
    jobs = 0
    for firing in firings:
        if together and (jobs + len(firing.jobs) > CALL_ITEMS or len(together) == CALL_ITEMS):
            won += await _fire_together(context, together)
            together, jobs = [], 0
        together.append(firing)
        jobs += len(firing.jobs)
    return won + (await _fire_together(context, together) if together else [])


async def _fire_together(context: RedisContext, firings: Sequence[Firing]) -> list[bool]:
    roots, args = fire_args(context, [job for firing in firings for job in firing.jobs])
    each = [(firing, b"", len(firing.jobs)) for firing in firings]
    return await _compare_and_set(context, each, roots, args)


async def _fire_on_cluster(context: RedisContext, firing: Firing) -> bool:
    """Move the repeat on and store its jobs next to it in one atomic step, then enqueue the jobs.

    If this process dies before it enqueues them, the next reap of any worker does, some seconds
    late. If it dies after that, they are enqueued twice under the same ids. That changes nothing
    unless such a job has ended and was deleted in the meantime: then it runs a second time."""
    undelivered = _pack(firing.jobs) if firing.jobs else b""
    [won] = await _compare_and_set(context, [(firing, undelivered, 0)], [], [])
    if won and firing.jobs:
        await insert(context, firing.jobs)
        await context.in_namespace("fire_delivered", f"{firing.key} {firing.cursor}")
    return won


async def deliver(context: RedisContext) -> None:
    """Enqueue the jobs of firings whose process died before it did so."""
    found = await context.in_namespace("fire_undelivered", context.now(), DELIVERY_TIMEOUT_MS)
    for name, packed in zip(found[::2], found[1::2], strict=True):
        try:
            jobs = _unpack(packed)
        except BAD as error:  # the record is kept, but not read again
            log.error("the jobs of firing %s cannot be read and are not enqueued: %s", name, error)
            await context.connection.command(
                "ZREM", context.keys.in_namespace("undelivered_since"), name
            )
            continue
        await insert(context, jobs)
        await context.in_namespace("fire_delivered", name)


async def _compare_and_set(
    context: RedisContext,
    firings: Sequence[tuple[Firing, bytes, int]],
    roots: list[str],
    jobs: list[Any],
) -> list[bool]:
    """Apply firings. Each comes with its undelivered jobs and with how many of `jobs` it owns."""
    args: list[Any] = []
    for firing, undelivered, own in firings:
        moments = _or_empty(firing.next), firing.fired, _or_empty(firing.last)
        args += (firing.key, firing.cursor, firing.revision, *moments)
        args += (firing.state.value, firing.reason, undelivered, own)
    keys = [context.keys.shared, *roots]
    head = (context.now(), context.keys.notify_channel, len(firings))
    answers = await context.connection.run("fire", keys, *head, *args, *jobs)
    return [bool(won) for won in answers]


async def lock(context: RedisContext, name: str, holder: str, keep: Wait) -> bool:
    """Take a lock for `keep`. Returns False if another holder has it."""
    return bool(await context.in_namespace("lock", context.now(), name, holder, keep))


async def unlock(context: RedisContext, name: str, holder: str) -> None:
    """Release a lock if this holder has it."""
    await context.in_namespace("unlock", context.keys.notify_channel, name, holder)
