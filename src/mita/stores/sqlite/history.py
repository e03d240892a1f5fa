"""The history of runs, per minute and per hour."""

from collections.abc import Sequence

from mita.model.history import SPANS_KEPT_MS, RunCounts, StoredCounts
from mita.model.time import Moment
from mita.rules.history import begin, first_shown, span_of, stored_counts, totals

from .context import SqliteContext, as_json


def count_runs(context: SqliteContext, counts: Sequence[RunCounts]) -> None:
    """Add counts to the current minute and to the current hour."""
    rows = [
        (span, begin(context.now, span), queue, task, *numbers)
        for span in SPANS_KEPT_MS
        for (queue, task), numbers in totals(counts).items()
    ]
    if rows:
        context.run("count_runs", rows=as_json(rows))


def run_history(
    context: SqliteContext, since: Moment, hourly: bool, queue: str | None, task: str | None
) -> list[StoredCounts]:
    """Return the counts per minute, or per hour, oldest first."""
    span = span_of(hourly)
    first = first_shown(since, context.now, span)
    rows = context.rows("run_history", span=span, first=first, queue=queue, task=task)
    return [stored_counts(at, queue, task, numbers) for at, queue, task, *numbers in rows]


def prune_history(context: SqliteContext) -> None:
    """Delete minutes and hours that are not shown any more."""
    for span in SPANS_KEPT_MS:
        context.run("prune_history", span=span, first=first_shown(0, context.now, span))
