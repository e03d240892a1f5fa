"""The filters of `jobs` and of the bulk operations."""

import re
from typing import Any, TypedDict

from mita.errors import UsageError, did_you_mean
from mita.model.record import DisplayState
from mita.model.view import JobFilter
from mita.rules.claim_size import CALL_JOBS
from mita.rules.fingerprint import FINGERPRINT_DIGITS
from mita.rules.labels import check_tag
from mita.rules.names import check_key, check_name

FILTERS = ("queue", "task", "state", "resource", "unique", "repeat", "error", "tag", "group")
_CHECKS = {
    "queue": check_name,
    "task": check_name,
    "resource": check_key,
    "unique": check_key,
    "repeat": check_key,
}
_GROUP = re.compile(rf"[0-9a-f]{{{FINGERPRINT_DIGITS}}}")
# an id, or its beginning; ids of steps and children have further parts
_CURSOR = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}(\.[0-9a-f]*)*")


class JobFilters(TypedDict, total=False):
    """Filters; a job must match all that are given. `error` is searched for in the error's text.
    `group` is the group of a failed job; "" chooses failed jobs without one."""

    queue: str | None
    task: str | None
    state: DisplayState | str | None
    resource: str | None
    unique: str | None
    repeat: str | None
    error: str | None
    tag: str | None
    group: str | None


def job_filter(state: DisplayState | str | None = None, **given: Any) -> JobFilter:
    """Return a store's filter. `state` is a state as people see it. Raises `UsageError` for a value
    that no job can have: an empty page would hide the mistake."""
    for name in given:
        if name not in FILTERS:
            meant = did_you_mean(name, FILTERS) or "."
            raise UsageError(f"unknown filter {name!r}{meant} The filters are {', '.join(FILTERS)}")
    fields: dict[str, Any] = {name: given.get(name) for name in FILTERS if name != "state"}
    for name, check in _CHECKS.items():
        if fields[name] is not None:
            check(name, fields[name])
    if fields["tag"] is not None:
        check_tag(fields["tag"])
    if fields["error"] is not None and (
        not isinstance(fields["error"], str) or not fields["error"]
    ):
        raise UsageError(f"error={fields['error']!r}: give a part of the error's text to look for")
    if fields["group"] is not None:
        _check_group(fields["group"])
    if state is None:
        return JobFilter(**fields)
    if state not in tuple(DisplayState):
        raise UsageError(f"state={state!r}: use one of {', '.join(DisplayState)}")
    return JobFilter(shown=DisplayState(state), **fields)


def _check_group(group: Any) -> None:
    if not isinstance(group, str) or (group and not _GROUP.fullmatch(group)):
        raise UsageError(
            f"group={group!r} is not the group of a failed job: give the 16 digits that "
            "app.dead_groups() and `mita dead` show"
        )


def cursor(after: str | None) -> str | None:
    """Check the `after` of a page. Raises `UsageError` if it is no id of a job."""
    if after is not None and (not isinstance(after, str) or not _CURSOR.fullmatch(after)):
        raise UsageError(
            f"after={after!r} is not the end of a page: give the `after` of the page before, "
            "page.after"
        )
    return after


def page_size(limit: int) -> int:
    """Check the `limit` of a page. Raises `UsageError` if it is not from 1 to 1,000."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= CALL_JOBS:
        raise UsageError(
            f"limit={limit!r}: a page has 1 to {CALL_JOBS} jobs; continue with after=page.after"
        )
    return limit
