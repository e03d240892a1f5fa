"""Searching for jobs in SQL, for each dialect."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct, inspect, json

from mita.model.job import Job, Lasting, State
from mita.model.record import DisplayState
from mita.model.time import LATEST, Moment
from mita.model.view import JobFilter, Page
from mita.rules.matching import stored_state
from mita.rules.readable import BAD, problem, read_job
from mita.rules.states import TERMINAL

from .record import JOB, RESET_ON_RETRY

_NAMES = {"unique": "uniq", "limit": "most", "group": "failure_group"}
_CONTRADICTIONS = (
    f"state = '{State.RUNNING}' and lease_until is null",
    f"state = '{State.BLOCKED}' and resource is null and blocked_at is null",
)
HIGHEST = chr(0x10FFFF)  # sorts after every id that is a text
_COLUMNS = {
    "queue": "queue",
    "task": "task",
    "unique": "uniq",
    "repeat": "repeat",
}
_FIELDS = Job.__struct_fields__
_JSON = [name for name, field in JOB.items() if field.is_json]
# Columns that a table may leave empty: then the field has its default.
_LEFT_EMPTY = {name: JOB[name].default for name in ("gates", "weight")}


# when the queued jobs are due that are shown like this
_DUE = {
    DisplayState.WAITING: f"due = {LATEST}",
    DisplayState.SCHEDULED: f"due > {{now}} and due <> {LATEST}",
    DisplayState.READY: "due <= {now}",
}

# what a retry writes
_REVIVED: dict[str, Any] = {"state": State.QUEUED.value, "due": 0, **RESET_ON_RETRY}


class Row(Job, frozen=True, kw_only=True):
    """A job as a table has it: with what waits for the end of its run."""

    asked_due: Moment | None = None
    asked_keep: Lasting | None = None


class Dialect(Struct, frozen=True):
    """How a database spells a bound value (`{}` is its name), the present moment, "this text is
    inside that", an error without its traceback (as `rules.failures.head`), "a job has this key"
    (`{}` is the bound key), and "a job has this tag" (`{}` is the bound tag)."""

    bound: str
    now: str
    contains: str
    head: str
    has_key: str = "resource = {}"
    has_tag: str = "false"


def where(want: JobFilter, after: str | None, say: Dialect) -> str:
    """The condition for a page. States are spelled out, not bound, so that the partial indexes can
    be used."""
    clauses = [
        f"{column} = {say.bound.format(name)}"
        for name, column in _COLUMNS.items()
        if getattr(want, name) is not None
    ]
    if want.resource is not None:
        clauses.append(say.has_key.format(say.bound.format("resource")))
    if want.tag is not None:
        clauses.append(say.has_tag.format(say.bound.format("tag")))
    if want.error is not None:
        clauses.append(f"{say.contains}({say.head}, {say.bound.format('error')}) > 0")
    if want.group is not None:
        # as the index of groups spells it
        clauses.append(f"coalesce(failure_group, '') = {say.bound.format('group')}")
        clauses.append(f"state = '{State.FAILED}'")
    for state in {want.state, None if want.shown is None else stored_state(want.shown)}:
        if state is not None:
            clauses.append(f"state = '{state.value}'")
        if state in TERMINAL:
            clauses.append("finished is not null")
    if want.shown in _DUE:
        clauses.append(_DUE[want.shown].format(now=say.now))
    if after is not None:
        clauses.append(f"id < {say.bound.format('after')}")
    return " and ".join(clauses) or "true"


def values(want: JobFilter, after: str | None, limit: int) -> dict[str, Any]:
    """What `where` binds, and one more row than is shown: it tells whether there is a next page."""
    return {name: getattr(want, name) for name in JobFilter.__struct_fields__} | {
        "after": after,
        "limit": limit + 1,
    }


def as_page(rows: Sequence[Sequence[Any]], limit: int) -> Page:
    """The page of these rows, of which there may be one more than `limit`."""
    jobs = [as_job(row) for row in rows]
    return Page(jobs[:limit], _cursor(rows[limit - 1][0]) if len(jobs) > limit else None)


def _cursor(id: Any) -> str:
    """Where the next page begins. An id that cannot be read is passed by what can be read of it."""
    if not isinstance(id, str):
        return HIGHEST
    return id.encode("utf-8", "surrogateescape").decode("utf-8", "replace").partition("\ufffd")[0]


def as_job(row: Sequence[Any]) -> Job:
    """The job in a row of `JOB_COLUMNS`. One that cannot be read is a failed job that says why."""
    return read_job(_found(_FIELDS, row))


def _found(names: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    """The fields of a row. A text that is no JSON stays as it is, and is then found unreadable."""
    found = dict(zip(names, row, strict=True))
    for name, default in _LEFT_EMPTY.items():
        if found[name] is None:
            found[name] = default
    for name in _JSON:
        if isinstance(found[name], str):
            with suppress(*BAD):
                found[name] = json.decode(found[name])
    return found


# ---------------------------------------------------------- looking for records that cannot be read


class Kinds(Struct, frozen=True):
    """How a database asks whether a value is no whole number within bounds, no text, or no bytes.
    `{}` is the column."""

    number: str
    text: str
    bytes: str
    json: str = "false"


def suspicious(kinds: Kinds) -> str:
    """The condition for rows that may not be readable: everything that `reasons` finds is among
    them."""
    conditions = [_suspicion(name, info, kinds) for name, info in _row_fields()]
    return " or ".join([*conditions, *_CONTRADICTIONS])


def reasons(rows: Sequence[Sequence[Any]]) -> list[str | None]:
    """Why each of these rows cannot be read; None for one that can. The columns are `columns()` in
    their order."""
    return [problem(_found(Row.__struct_fields__, row), Row) for row in rows]


def stays_unreadable(row: Sequence[Any]) -> bool:
    """Whether a row could not be read either if its job were brought back, which writes some of its
    columns anew."""
    return problem(_found(Row.__struct_fields__, row) | _REVIVED, Row) is not None


def column(field: str) -> str:
    """The column of a field of `Job`. `unique`, `limit` and `group` are words of SQL."""
    return _NAMES.get(field, field)


JOB_COLUMNS = ", ".join(map(column, JOB))
"""The columns of a job in the order of the fields of `Job`: what `as_job` reads."""


def columns() -> list[str]:
    """The columns of a whole job."""
    return [_NAMES.get(name, name) for name in Row.__struct_fields__]


def _row_fields() -> list[tuple[str, Any]]:
    """The column and the type of each field of `Row`."""
    shape = inspect.type_info(Row)
    assert isinstance(shape, inspect.StructType)  # noqa: S101
    return [(_NAMES.get(field.name, field.name), field.type) for field in shape.fields]


def _suspicion(column: str, kind: Any, kinds: Kinds) -> str:
    if isinstance(kind, inspect.UnionType):
        [kind] = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
    match kind:
        case inspect.IntType(ge=low, le=high):
            low, high = -(2**63) if low is None else low, 2**63 - 1 if high is None else high
            return kinds.number.format(column, low=low, high=high)
        case inspect.EnumType(cls=names):
            known = ", ".join(f"'{name.value}'" for name in names)
            return f"{column} not in ({known})"
        case inspect.StrType():
            return kinds.text.format(column)
        case inspect.BytesType():
            return kinds.bytes.format(column)
        case _:
            return kinds.json.format(column)
