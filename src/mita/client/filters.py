"""Which jobs to show."""

from typing import Any

from mita.errors import UsageError
from mita.model.job import State
from mita.model.record import Shown
from mita.model.view import JobFilter
from mita.rules.pace import MOST


def job_filter(state: Shown | str | None, **fields: Any) -> JobFilter:
    """By the state that people see: `scheduled` and `ready` are both queued."""
    if state is None:
        return JobFilter(**fields)
    if state not in tuple(Shown):
        raise UsageError(f"state={state!r}: use one of {', '.join(Shown)}")
    shown = Shown(state)
    if shown in (Shown.SCHEDULED, Shown.READY):
        return JobFilter(state=State.QUEUED, scheduled=shown is Shown.SCHEDULED, **fields)
    return JobFilter(state=State(shown.value), **fields)


def page_size(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise UsageError(f"limit={limit!r}: a page has 1 to {MOST} jobs; go on with after=page.after")
    return limit
