"""The history of runs, per minute and per hour: a hash for each, which the server deletes."""

import asyncio
from collections.abc import Sequence

import msgspec

from mita.model.history import RunCounts, StoredCounts
from mita.model.time import Moment
from mita.rules.history import NUMBERS, first_shown, is_wanted, span_of, stored_counts, totals
from mita.rules.readable import BAD

from .context import RedisContext, parts

READ_HASHES = 120  # that one call reads: minutes or hours
_pack = msgspec.msgpack.Encoder().encode
_pair = msgspec.msgpack.Decoder(tuple[str, str]).decode
_numbers = msgspec.msgpack.Decoder(list[int]).decode


async def count_runs(context: RedisContext, counts: Sequence[RunCounts]) -> None:
    """Add counts to the current minute and to the current hour."""
    rows = totals(counts)
    if rows:
        packed = [_pack(one) for row in rows.items() for one in row]
        await context.in_namespace("count_runs", context.now(), *packed, repeatable=False)


async def run_history(
    context: RedisContext, since: Moment, hourly: bool, queue: str | None, task: str | None
) -> list[StoredCounts]:
    """Return the counts per minute, or per hour, oldest first."""
    now, span = await context.read_clock(), span_of(hourly)
    starts = range(first_shown(since, now, span), now + 1, span)
    key = "history_hours" if hourly else "history_minutes"
    some = parts(starts, READ_HASHES)
    answers = await asyncio.gather(
        *(context.in_namespace("run_history", key, *part) for part in some)
    )
    found = [hash for answer in answers for hash in answer]
    return [
        counts
        for at, hash in zip(starts, found, strict=True)
        for counts in sorted(_counts(at, hash), key=lambda one: (one.queue, one.task))
        if is_wanted(counts.queue, counts.task, queue, task)
    ]


def _counts(at: Moment, hash: Sequence[bytes]) -> list[StoredCounts]:
    """The counts in one hash. Fields that cannot be read are left out."""
    found = []
    for pair, numbers in zip(hash[::2], hash[1::2], strict=True):
        try:
            row = _numbers(numbers)
            if len(row) == len(NUMBERS):
                found.append(stored_counts(at, *_pair(pair), row))
        except BAD:
            continue
    return found
