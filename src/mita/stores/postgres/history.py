"""The history of runs, per minute and per hour."""

from collections.abc import Sequence

from mita.model.history import SPANS_KEPT_MS, RunCounts, StoredCounts
from mita.model.time import Moment
from mita.rules.history import NUMBERS, span_of, stored_counts, totals

from .context import PostgresContext, RoundTrip, RoundTrips, query
from .server.arrays import numbers, storable, texts


def count_runs(_: PostgresContext, counts: Sequence[RunCounts]) -> RoundTrips[None]:
    """Add counts to the current minute and to the current hour. The commit is not synced: a crash
    of the server may undo the counts of its last moments."""
    rows = totals(counts, storable)
    if not rows:
        return
    columns = zip(NUMBERS, zip(*rows.values(), strict=True), strict=True)
    added = query(
        "count_runs",
        queues=texts([queue for queue, _ in rows]),
        tasks=texts([task for _, task in rows]),
        **{name: numbers(values) for name, values in columns},
    )
    yield RoundTrip(added, last=True, synced=False)


def run_history(
    _: PostgresContext, since: Moment, hourly: bool, queue: str | None, task: str | None
) -> RoundTrips[list[StoredCounts]]:
    """Return the counts per minute, or per hour, oldest first."""
    span = span_of(hourly)
    wanted = {"queue": queue, "task": task}
    names = {name: None if one is None else storable(one) for name, one in wanted.items()}
    found = query("run_history", span=span, keep=SPANS_KEPT_MS[span], since=since, **names)
    [rows] = yield RoundTrip(found, last=True)
    return [stored_counts(at, queue, task, found) for at, queue, task, *found in rows]
