"""The history of runs, as a store keeps it."""

from collections.abc import Sequence
from typing import Protocol

from mita.model.history import RunCounts, StoredCounts
from mita.model.time import Moment


class History(Protocol):
    """Counts of runs per minute and per hour. Workers add to them every few seconds."""

    async def count_runs(self, counts: Sequence[RunCounts]) -> None:
        """Add these counts to the current minute and to the current hour of the store's clock. A
        queue and task may be there several times. Minutes are kept for `MINUTES_KEPT_MS`, hours for
        `HOURS_KEPT_MS`."""

    async def run_history(
        self, since: Moment, hourly: bool, queue: str | None, task: str | None
    ) -> list[StoredCounts]:
        """Return the counts per minute, or per hour (`hourly`), oldest first and then by queue and
        task. They begin with the minute or hour of `since`, or with the oldest that is kept. A
        `queue` or `task` of None means any."""
