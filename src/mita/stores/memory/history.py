"""The history of runs, per minute and per hour."""

from collections.abc import Sequence

from mita.model.history import SPANS_KEPT_MS, RunCounts, StoredCounts
from mita.model.time import Moment
from mita.rules.history import begin, first_shown, is_wanted, span_of, stored_counts, summed, totals

from .context import MemoryContext


def count_runs(context: MemoryContext, counts: Sequence[RunCounts]) -> None:
    """Add counts to the current minute and to the current hour."""
    for span in SPANS_KEPT_MS:
        rows = context.state.history[span]
        for (queue, task), numbers in totals(counts).items():
            row = begin(context.now, span), queue, task
            rows[row] = summed(rows.get(row), numbers)


def run_history(
    context: MemoryContext, since: Moment, hourly: bool, queue: str | None, task: str | None
) -> list[StoredCounts]:
    """Return the counts per minute, or per hour, oldest first."""
    span = span_of(hourly)
    first = first_shown(since, context.now, span)
    return [
        stored_counts(*row, numbers)
        for row, numbers in sorted(context.state.history[span].items())
        if row[0] >= first and is_wanted(row[1], row[2], queue, task)
    ]


def prune_history(context: MemoryContext) -> None:
    """Delete minutes and hours that are not shown any more."""
    for span, rows in context.state.history.items():
        first = first_shown(0, context.now, span)
        for row in [row for row in rows if row[0] < first]:
            del rows[row]
