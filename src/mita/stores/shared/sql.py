"""Looking for jobs in SQL: the same questions in the words of each database."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from mita.model.job import Job, State, WhenBusy
from mita.model.view import JobFilter, Page
from mita.rules.states import TERMINAL

_COLUMNS = {"queue": "queue", "task": "task", "resource": "resource", "unique": "uniq", "repeat": "repeat"}
_FIELDS = Job.__struct_fields__


class Dialect(Struct, frozen=True):
    """How a database spells a bound value (`{}` is its name), the present moment, "this text is inside that", and an error
    without its traceback (as `rules.failures.head`)."""

    bound: str
    now: str
    contains: str
    head: str


def where(want: JobFilter, after: str | None, say: Dialect) -> str:
    """The condition for a page. States are spelled out, not bound, so that the partial indexes can be used."""
    clauses = [
        f"{column} = {say.bound.format(name)}" for name, column in _COLUMNS.items() if getattr(want, name) is not None
    ]
    if want.error is not None:
        clauses.append(f"{say.contains}({say.head}, {say.bound.format('error')}) > 0")
    state = State.QUEUED if want.scheduled is not None else want.state
    if state is not None:
        clauses.append(f"state = '{state.value}'")
    if state in TERMINAL:
        clauses.append("finished is not null")
    if want.scheduled is not None:
        clauses.append(f"due {'>' if want.scheduled else '<='} {say.now}")
        if want.state not in (None, State.QUEUED):
            clauses.append("false")
    if after is not None:
        clauses.append(f"id < {say.bound.format('after')}")
    return " and ".join(clauses) or "true"


def values(want: JobFilter, after: str | None, limit: int) -> dict[str, Any]:
    """What `where` binds, and one more row than is shown: it tells whether there is a next page."""
    return {name: getattr(want, name) for name in JobFilter.__struct_fields__} | {"after": after, "limit": limit + 1}


def as_page(rows: Sequence[Sequence[Any]], limit: int) -> Page:
    jobs = [as_job(row) for row in rows]
    return Page(jobs[:limit], jobs[limit - 1].id if len(jobs) > limit else None)


def as_job(row: Sequence[Any]) -> Job:
    found = dict(zip(_FIELDS, row, strict=True))
    found["state"] = State(found["state"])
    found["when_busy"] = WhenBusy(found["when_busy"])
    return Job(**found)
