"""The history of runs, per minute and per hour.

The counts of a minute are in a few messages, one for each slot. A store always writes to the same
slot, so that many workers seldom change the same message at once."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from mita.model.history import MOST_PAIRS, SPANS_KEPT_MS, RunCounts, StoredCounts
from mita.model.time import Moment
from mita.rules.history import (
    OTHERS,
    begin,
    first_shown,
    is_wanted,
    span_of,
    stored_counts,
    summed,
    totals,
)

from .codec import HistoryRow, pack
from .context import HISTORY_SLOTS, NatsContext
from .stream.decode import decode_history
from .stream.job_records import TTL, whole_seconds
from .stream.reader import ANSWER_MESSAGES
from .stream.transaction import StreamTransaction, transact

READ_SPANS = ANSWER_MESSAGES // HISTORY_SLOTS - 1  # minutes or hours that one request reads


async def count_runs(context: NatsContext, counts: Sequence[RunCounts]) -> None:
    """Add counts to the current minute and to the current hour, both or none."""
    added = totals(counts)
    if added:
        await transact(context, lambda tx: _add(tx, added))


async def _add(tx: StreamTransaction, added: Mapping[tuple[str, str], list[int]]) -> None:
    context = tx.context
    subjects = {
        span: context.subjects.history(span, begin(tx.now, span), context.history_slot)
        for span in SPANS_KEPT_MS
    }
    await tx.read(subjects.values())
    for span, subject in subjects.items():
        body = _packed(decode_history(await tx.body(subject)), added, context.max_record)
        tx.put(subject, body, TTL % whole_seconds(SPANS_KEPT_MS[span] + 2 * span))


def _packed(
    before: Iterable[HistoryRow], added: Mapping[tuple[str, str], list[int]], most_bytes: int
) -> bytes:
    """The sums, as one message. Pairs that do not fit in are counted together."""
    most = MOST_PAIRS
    stored = {(queue, task): numbers for queue, task, numbers in before}
    while True:
        rows = dict(stored)
        for pair, numbers in added.items():
            row = pair if pair in rows or len(rows) < most else OTHERS
            rows[row] = summed(rows.get(row), numbers)
        body = pack([(*pair, numbers) for pair, numbers in rows.items()])
        if len(body) <= most_bytes or not most:
            return body
        most //= 2


async def run_history(
    context: NatsContext, since: Moment, hourly: bool, queue: str | None, task: str | None
) -> list[StoredCounts]:
    """Return the counts per minute, or per hour, oldest first."""
    now, span = context.clock.now(), span_of(hourly)
    starts = range(first_shown(since, now, span), now + 1, span)
    wanted = {context.subjects.history(span, at): at for at in starts}
    patterns = list(wanted)
    answers = await asyncio.gather(
        *(
            context.reader.last(patterns[part : part + READ_SPANS])
            for part in range(0, len(patterns), READ_SPANS)
        )
    )
    found: dict[tuple[Moment, str, str], list[int]] = {}
    for message in (message for answer in answers for message in answer):
        at = wanted[f"{message.subject.rpartition('.')[0]}.*"]
        for name, of_task, numbers in decode_history(message.body):
            if is_wanted(name, of_task, queue, task):
                row = at, name, of_task
                found[row] = summed(found.get(row), numbers)
    return [stored_counts(*row, numbers) for row, numbers in sorted(found.items())]
