"""The history of runs, as an app shows it."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Literal

from mita.errors import UsageError
from mita.model.history import HistoryPoint, StoredCounts
from mita.model.time import SECOND, Moment
from mita.ports.store import Store
from mita.rules.display import as_datetime
from mita.rules.when import moment
from mita.twins import RunSync, sync_twin

LAST_HOUR = timedelta(hours=1)


class RunHistory:
    """The methods of an app that show how many runs ended in the past."""

    _store: Callable[[], Awaitable[Store]]
    _run_sync: RunSync

    async def history(
        self,
        *,
        since: datetime | timedelta = LAST_HOUR,
        by: Literal["minute", "hour"] = "minute",
        queue: str | None = None,
        task: str | None = None,
    ) -> tuple[HistoryPoint, ...]:
        """Return how many runs ended, how they ended and how long they took: one `HistoryPoint` for
        each minute or hour, queue and task, oldest first. A minute in which no run ended has none.

        `since` is a time, or how long ago. Minutes are kept for 24 hours, hours for 90 days.
        `queue` and `task` choose one of each. Workers add their runs every two seconds. Raises
        `UsageError` for a time without a zone, or for another `by`."""
        if by not in ("minute", "hour"):
            raise UsageError(f'by={by!r}: give "minute" or "hour"')
        store = await self._store()
        first = _moment(since, await store.now())
        found = await store.run_history(first, by == "hour", queue, task)
        return tuple(map(_point, found))

    history_sync = sync_twin(history)


def _moment(since: datetime | timedelta, now: Moment) -> Moment:
    if isinstance(since, timedelta):
        if since < timedelta(0):
            raise UsageError(f"since={since!r} is negative: say how long ago, timedelta(hours=1)")
        return max(0, now - since // timedelta(milliseconds=1))
    if not isinstance(since, datetime):
        raise UsageError(
            f"since={since!r}: give a datetime with a time zone, or how long ago, "
            "timedelta(hours=1)"
        )
    return max(0, moment(since, "since"))


def _point(counts: StoredCounts) -> HistoryPoint:
    return HistoryPoint(
        at=as_datetime(counts.at),
        queue=counts.queue,
        task=counts.task,
        succeeded=counts.succeeded,
        failed=counts.failed,
        retried=counts.retried,
        rescheduled=counts.rescheduled,
        cancelled=counts.cancelled,
        run_seconds=counts.run_ms / SECOND,
        wait_seconds=counts.wait_ms / SECOND,
    )
