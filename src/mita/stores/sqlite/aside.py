"""Records that cannot be read: found, set aside, exported.

A call that fails because of what it read in the file is not simply tried again. First the waiting
and running jobs whose rows cannot be read are set aside: they become failed jobs, their keys are
free, and nothing of their rows is overwritten but where they stand."""

import sqlite3
from collections.abc import Iterator
from typing import Any

from mita.errors import StoreError
from mita.model.view import Finding
from mita.rules.readable import BAD, SET_ASIDE_KEEP
from mita.rules.text import writable
from mita.stores.shared import sql
from mita.stores.shared.aside import finding

from . import resources
from .context import Tx, is_text
from .timeline import note

SLICE = 1000  # rows looked at with one statement
_ASCII = "'*[^' || char(1) || '-' || char(127) || ']*'"
_KINDS = sql.Kinds(
    number="({0} is not null and (typeof({0}) <> 'integer' or {0} not between {low} and {high}))",
    text=f"({{0}} is not null and (typeof({{0}}) <> 'text' or {{0}} glob {_ASCII}))",
    bytes="({0} is not null and typeof({0}) <> 'blob')",
)
_LOOK = f"""\
select seq, {", ".join(sql.columns())} from _mita_job
where seq > :seq and {{where}} and ({sql.suspicious(_KINDS)}) order by seq limit {SLICE}"""  # noqa: S608
_ALIVE = "state in ('queued', 'blocked', 'running')"


def may_be_a_record(error: Exception) -> bool:
    """Whether a call may have failed because of a row that it read."""
    cause = error.__cause__ if isinstance(error, StoreError) else error
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorname", None) in (None, "SQLITE_ERROR", "SQLITE_MISMATCH")
    return isinstance(cause, BAD)


def set_aside(tx: Tx) -> int:
    """All unreadable jobs that wait or run. Gives how many there were."""
    # a reason quotes what was found
    found = [(seq, writable(reason)) for seq, reason in _unreadable(tx, _ALIVE)]
    for seq, reason in found:
        tx.run("free_uniques_of", seq=seq)
        tx.run("set_aside", seq=seq, now=tx.now, expires=tx.now + SET_ASIDE_KEEP, error=reason)
        note(tx, seq, "failed", reason)
    if found:
        resources.mend(tx)
    return len(found)


def set_aside_unmet(tx: Tx) -> None:
    """Jobs that stand where no claim and no reap would ever meet them, found by the indexes
    alone."""
    tx.topics |= {name for (name,) in filter(is_text, tx.rows("know_lost_queues"))}
    if tx.one("any_unmet", now=tx.now):
        set_aside(tx)


def _unreadable(tx: Tx, where: str) -> Iterator[tuple[int, str]]:
    seq = 0
    rows: list[Any] = [None]
    text = tx.sql.made(_LOOK.replace("{where}", where))
    while rows:
        rows = tx.connection.execute(text, {"seq": seq}).fetchall()
        for row, reason in zip(rows, sql.reasons([row[1:] for row in rows]), strict=True):
            if reason is not None:
                yield row[0], reason
        seq = rows[-1][0] if rows else seq


def stays_unreadable(tx: Tx, seq: int) -> bool:
    """Whether this ended job could not be read either if it were brought back."""
    text = tx.sql.made(f"select {', '.join(sql.columns())} from _mita_job where seq = ?")  # noqa: S608
    return sql.stays_unreadable(tx.connection.execute(text, (seq,)).fetchone())


def raw(tx: Tx, id: str) -> dict[str, bytes] | None:
    """The columns of a job as they are in the file: a text as its bytes, a number in digits."""
    names = [row[1] for row in tx.connection.execute(tx.sql.made("pragma table_info(_mita_job)"))]
    columns = ", ".join(f"cast({name} as blob)" for name in names)
    text = tx.sql.made(f"select {columns} from _mita_job where id = :id")  # noqa: S608
    row: Any = tx.connection.execute(text, {"id": id}).fetchone()
    return (
        None
        if row is None
        else {
            name: bytes(value) for name, value in zip(names, row, strict=True) if value is not None
        }
    )


def doctor(tx: Tx) -> Finding:
    ids = [_shown(tx, seq) for seq, _ in _unreadable(tx, "true")]
    return finding(ids)


def _shown(tx: Tx, seq: int) -> str:
    id = tx.connection.execute(
        tx.sql.made("select id from _mita_job where seq = ?"), (seq,)
    ).fetchone()[0]
    return id if isinstance(id, str) and id.isascii() else f"row {seq}"
