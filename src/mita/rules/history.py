"""The history of runs: to which minute or hour a count belongs, and how counts are added."""

from collections.abc import Callable, Iterable, Sequence

from mita.model.history import SPANS_KEPT_MS, RunCounts, StoredCounts
from mita.model.time import HOUR, MINUTE, Moment, Wait

NUMBERS = tuple(name for name in RunCounts.__struct_fields__ if name not in ("queue", "task"))
OTHERS = ("", "")  # the queue and task under which pairs beyond the limit are counted


def span_of(hourly: bool) -> Wait:
    """Returns how long an hour or a minute is."""
    return HOUR if hourly else MINUTE


def begin(moment: Moment, span: Wait) -> Moment:
    """Returns when the minute or hour of this point in time began."""
    return moment - moment % span


def first_shown(since: Moment, now: Moment, span: Wait) -> Moment:
    """Returns the beginning of the first minute or hour that is shown: that of `since`, or the
    oldest one that is kept."""
    return begin(max(0, since, now - SPANS_KEPT_MS[span]), span)


def numbers_of(counts: RunCounts) -> list[int]:
    """Returns the numbers, in the order of `NUMBERS`."""
    return [getattr(counts, name) for name in NUMBERS]


def summed(before: Sequence[int] | None, numbers: Sequence[int]) -> list[int]:
    """Returns the sums of two rows of numbers; `before` may be missing."""
    if before is None:
        return list(numbers)
    return [one + other for one, other in zip(before, numbers, strict=True)]


def totals(
    counts: Iterable[RunCounts], shown: Callable[[str], str] = str
) -> dict[tuple[str, str], list[int]]:
    """Returns the numbers by queue and task, sorted, so that all workers write rows in the same
    order. `shown` turns a name into what the store keeps."""
    found: dict[tuple[str, str], list[int]] = {}
    for one in counts:
        pair = shown(one.queue), shown(one.task)
        found[pair] = summed(found.get(pair), numbers_of(one))
    return dict(sorted(found.items()))


def stored_counts(at: Moment, queue: str, task: str, numbers: Sequence[int]) -> StoredCounts:
    """Returns the counts of one minute or hour, from numbers in the order of `NUMBERS`."""
    succeeded, failed, retried, rescheduled, cancelled, run_ms, wait_ms = numbers
    return StoredCounts(  # a day may have many thousands of these
        at=at,
        queue=queue,
        task=task,
        succeeded=succeeded,
        failed=failed,
        retried=retried,
        rescheduled=rescheduled,
        cancelled=cancelled,
        run_ms=run_ms,
        wait_ms=wait_ms,
    )


def is_wanted(queue: str, task: str, of_queue: str | None, of_task: str | None) -> bool:
    """Whether a filter shows the counts of this queue and task."""
    return of_queue in (None, queue) and of_task in (None, task)
