"""The history of runs, per minute and per hour."""

from collections.abc import Sequence

from mita.model.history import SPANS_KEPT_MS, RunCounts, StoredCounts
from mita.model.time import Moment
from mita.rules.history import begin, first_shown, is_wanted, span_of, stored_counts, summed, totals

from .file import Content


def add(content: Content, counts: Sequence[RunCounts]) -> None:
    for span in SPANS_KEPT_MS:
        for (queue, task), numbers in totals(counts).items():
            row = span, begin(content.now, span), queue, task
            content.history[row] = summed(content.history.get(row), numbers)


def shown(
    content: Content, since: Moment, hourly: bool, of_queue: str | None, of_task: str | None
) -> list[StoredCounts]:
    wanted = span_of(hourly)
    first = first_shown(since, content.now, wanted)
    return [
        stored_counts(at, queue, task, numbers)
        for (span, at, queue, task), numbers in sorted(content.history.items())
        if span == wanted and at >= first and is_wanted(queue, task, of_queue, of_task)
    ]


def prune(content: Content) -> None:
    for row in [row for row in content.history if row[1] < first_shown(0, content.now, row[0])]:
        del content.history[row]
