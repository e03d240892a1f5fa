"""Which jobs to show."""

import re
from typing import Any, TypedDict

from mita.errors import UsageError, did_you_mean
from mita.model.job import State
from mita.model.record import DisplayState
from mita.model.view import JobFilter
from mita.rules.claim_size import CALL_JOBS
from mita.rules.names import check_key, check_name

FILTERS = ("queue", "task", "state", "resource", "unique", "repeat", "error")
_CHECKS = {
    "queue": check_name,
    "task": check_name,
    "resource": check_key,
    "unique": check_key,
    "repeat": check_key,
}
_CURSOR = re.compile(r"[0-9a-f]{1,32}")


class JobFilters(TypedDict, total=False):
    """Which jobs are meant: those that match all that is given. `error` is looked for inside the
    error's text."""

    queue: str | None
    task: str | None
    state: DisplayState | str | None
    resource: str | None
    unique: str | None
    repeat: str | None
    error: str | None


def job_filter(state: DisplayState | str | None = None, **given: Any) -> JobFilter:
    """By the state that people see: `scheduled` and `ready` are both queued. What no job can have
    is refused by the name of its field: an empty page would say that there is no such job, and the
    filter was at fault."""
    for name in given:
        if name not in FILTERS:
            meant = did_you_mean(name, FILTERS) or "."
            raise UsageError(f"unknown filter {name!r}{meant} The filters are {', '.join(FILTERS)}")
    fields: dict[str, Any] = {name: given.get(name) for name in FILTERS if name != "state"}
    for name, check in _CHECKS.items():
        if fields[name] is not None:
            check(name, fields[name])
    if fields["error"] is not None and (
        not isinstance(fields["error"], str) or not fields["error"]
    ):
        raise UsageError(f"error={fields['error']!r}: give a part of the error's text to look for")
    if state is None:
        return JobFilter(**fields)
    if state not in tuple(DisplayState):
        raise UsageError(f"state={state!r}: use one of {', '.join(DisplayState)}")
    shown = DisplayState(state)
    if shown in (DisplayState.SCHEDULED, DisplayState.READY):
        return JobFilter(state=State.QUEUED, scheduled=shown is DisplayState.SCHEDULED, **fields)
    return JobFilter(state=State(shown.value), **fields)


def cursor(after: str | None) -> str | None:
    if after is not None and (not isinstance(after, str) or not _CURSOR.fullmatch(after)):
        raise UsageError(
            f"after={after!r} is no place in the list: give what the page before ended with, "
            "page.after"
        )
    return after


def page_size(limit: int) -> int:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= CALL_JOBS:
        raise UsageError(
            f"limit={limit!r}: a page has 1 to {CALL_JOBS} jobs; go on with after=page.after"
        )
    return limit
