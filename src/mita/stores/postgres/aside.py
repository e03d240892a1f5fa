"""Records that cannot be read: found, set aside, exported.

The database keeps every column to its type, but not to what the values mean: a number may be out of
bounds, a word unknown. A call that fails because of what it read is not simply tried again. First
the waiting and running jobs whose rows cannot be read are set aside: they become failed jobs, their
keys are free, and nothing of their rows is overwritten but where they stand."""

import psycopg

from mita.model.view import Finding
from mita.rules.readable import BAD
from mita.stores.shared import sql
from mita.stores.shared.aside import finding

from . import resources
from .arrays import storable, texts
from .statements import Statements
from .steps import Act, Ask, Row, Step, Steps, ask

SLICE = 1000  # rows looked at with one statement
_KINDS = sql.Kinds(number="{0} not between {low} and {high}", text="false", bytes="false")
_LOOK = f"""\
select {", ".join(sql.columns())} from mita._job
where id > %(id)s::text and {{where}} and ({sql.suspicious(_KINDS)}) order by id limit {SLICE}"""  # noqa: S608
_ALIVE = "state in ('queued', 'blocked', 'running')"
_PARTS = ("seq", *sql.columns(), "timeline", "memos")
_RAW = ", ".join(
    name if name in ("payload", "options", "headers", "result", "progress") else f"{name}::text"
    for name in _PARTS
)


def may_be_a_record(error: Exception) -> bool:
    """Whether a call may have failed because of a row that it read."""
    return isinstance(error, psycopg.DataError) or (
        isinstance(error, BAD) and not isinstance(error, psycopg.Error)
    )


def set_aside(act: Act, statements: Statements) -> Steps[int]:
    """All unreadable jobs that wait or run. Gives how many there were."""
    found = yield from _unreadable(statements, _ALIVE)
    if not found:
        return 0
    [rows] = yield Step(resources.set_aside(found), last=True)
    [free] = yield Step(ask("waited_keys"))
    yield from resources.wake_all(act, free)
    return len(rows)


def _unreadable(statements: Statements, where: str) -> Steps[list[tuple[str, str]]]:
    found: list[tuple[str, str]] = []
    text = statements.fill(_LOOK.replace("{where}", where))
    rows: list[Row] = [("",)]
    while rows:
        [rows] = yield Step(Ask("suspicious", {"id": rows[-1][0]}, text), last=True)
        found += [
            (row[0], reason)
            for row, reason in zip(rows, sql.reasons(rows), strict=True)
            if reason is not None
        ]
    return found


def stay_unreadable(rows: list[Row]) -> set[str]:
    """Which of these ended jobs could not be read either if they were brought back."""
    return {row[0] for row in rows if sql.stays_unreadable(row)}


def whole_rows(statements: Statements, ids: list[str]) -> Ask:
    text = (
        f"select {', '.join(sql.columns())} from mita._job where id = any (%(ids)s::text::text[])"  # noqa: S608
    )
    return Ask("whole_rows", {"ids": texts(ids)}, statements.fill(text))


def raw(_: Act, statements: Statements, id: str) -> Steps[dict[str, bytes] | None]:
    """The columns of a job: a text as its bytes, a number in digits, a list as the database writes
    it."""
    text = statements.fill(f"select {_RAW} from mita._job where id = %(id)s")  # noqa: S608
    [rows] = yield Step(Ask("raw", {"id": storable(id)}, text), last=True)
    if not rows:
        return None
    parts = zip(_PARTS, rows[0], strict=True)
    return {
        name: bytes(value) if isinstance(value, bytes) else str(value).encode()
        for name, value in parts
        if value is not None
    }


def doctor(_: Act, statements: Statements) -> Steps[Finding]:
    found = yield from _unreadable(statements, "true")
    return finding([id for id, _ in found])
