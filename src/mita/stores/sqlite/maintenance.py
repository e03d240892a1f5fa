"""Deleting old jobs, migrating the schema, and setting aside records that cannot be read.

A call that fails because of what it read in the file is not simply repeated. First the waiting and
running jobs whose records cannot be read are set aside: they become failed jobs and their keys are
free. Nothing else of their rows is overwritten."""

import sqlite3
from collections.abc import Iterator
from typing import Any

from mita.errors import StoreError, UsageError
from mita.model.outcome import TimelineKind
from mita.ports.pubsub import MESSAGE_RETENTION
from mita.rules.gates import ONE_MS_US
from mita.rules.readable import BAD, SET_ASIDE_KEEP
from mita.rules.text import writable
from mita.stores.shared import sql

from . import resources
from .audit import prune_audit
from .codec import is_text
from .context import SqliteContext, as_json
from .file.statements import migrations, read
from .history import prune_history
from .settle import delete

# ------------------------------------------------------------ prune


def prune(context: SqliteContext, limit: int, most: int) -> int:
    """Delete terminal jobs whose retention is over, and succeeded jobs beyond the newest `most` of
    each queue, the oldest first; `limit` jobs in all. Returns how many were deleted."""
    now = context.now
    deleted = _delete(context, context.rows("prune_expired", now=now, limit=limit))
    for name in [name for name, *_ in context.rows("queues") if is_text([name])]:
        left = limit - deleted
        rows = context.rows("prune_surplus", queue=name, most=most, limit=left)
        deleted += _delete(context, rows)
    for statement in ("prune_keys", "prune_rates"):
        context.run(statement, now_us=now * ONE_MS_US)
    for statement in ("prune_once_values", "prune_unique", "prune_locks", "prune_subscriptions"):
        context.run(statement, now=now)
    context.run("prune_messages", before=now - MESSAGE_RETENTION)
    prune_audit(context)
    prune_history(context)
    return deleted


def _delete(context: SqliteContext, rows: list[tuple[int]]) -> int:
    if rows:
        delete(context, [seq for (seq,) in rows])
    return len(rows)


# ------------------------------------------------------------ migrate


def migrate(context: SqliteContext) -> list[str]:
    """Run the migrations that are missing. Returns their names. The lock is held, so a second
    process that starts now waits, and then finds them done."""
    meta = context.sql.filled_in("_mita_meta")
    there = context.connection.execute(
        "select 1 from sqlite_master where name = ?", (meta,)
    ).fetchone()
    version = int(context.value("migrate_version")) if there else 0
    newest = migrations()[-1][0]
    if version > newest:
        raise too_new(version, newest)
    steps = [(number, name) for number, name in migrations() if number > version]
    for _, name in steps:
        for statement in context.sql.filled_in(read("migrations", name)).split(";\n"):
            if statement.strip():
                context.connection.execute(statement)
    if steps:
        context.run("migrate_set_version", version=str(steps[-1][0]))
    return [name for _, name in steps]


def too_new(version: int, newest: int) -> UsageError:
    """The error for a file that a newer Mita has written."""
    return UsageError(
        f"this file has schema {version}, and this Mita knows only up to {newest}: "
        "it was written by a newer one. Upgrade Mita, or use another file"
    )


# ------------------------------------------------------------ records that cannot be read

UNREADABLE_SCAN_ROWS = 1000  # rows that one statement examines
_ASCII = "'*[^' || char(1) || '-' || char(127) || ']*'"
_KINDS = sql.Kinds(
    number="({0} is not null and (typeof({0}) <> 'integer' or {0} not between {low} and {high}))",
    text=f"({{0}} is not null and (typeof({{0}}) <> 'text' or {{0}} glob {_ASCII}))",
    bytes="({0} is not null and typeof({0}) <> 'blob')",
    json="({0} is not null and {0} <> '[]')",  # each is read: SQL cannot tell what it means
)
_COLUMNS = ", ".join(sql.columns())
_SUSPICIOUS = f"""\
select seq, {_COLUMNS} from _mita_job
where seq > :seq and {{where}} and ({sql.suspicious(_KINDS)}) order by seq
limit {UNREADABLE_SCAN_ROWS}"""  # noqa: S608
_ALIVE = "state in {alive}"
ANY = "true"


def may_be_a_record(error: Exception) -> bool:
    """Whether a call may have failed because of a row that it read."""
    cause = error.__cause__ if isinstance(error, StoreError) else error
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorname", None) in (None, "SQLITE_ERROR", "SQLITE_MISMATCH")
    return isinstance(cause, BAD)


def set_aside(context: SqliteContext) -> int:
    """Make failed jobs of all waiting and running jobs that cannot be read. Returns how many there
    were."""
    # the reason quotes what was found
    found = [(seq, writable(reason)) for seq, reason in unreadable(context, _ALIVE)]
    now, expires = context.now, context.now + SET_ASIDE_KEEP
    for seq, reason in found:
        context.run("unique_delete_unreadable", seq=seq)
        context.run("aside_job", seq=seq, now=now, expires=expires, error=reason)
        context.note(seq, TimelineKind.FAILED, reason)
    if found:
        resources.wake_all(context)
        seqs = as_json([seq for seq, _ in found])
        flows = context.rows("aside_flows", seqs=seqs, now=now)
        context.topics |= {queue for (queue,) in filter(is_text, flows)}
    return len(found)


def set_aside_unreachable(context: SqliteContext) -> None:
    """Set aside jobs that no claim and no reap would ever find. The indexes show whether there are
    any."""
    context.topics |= {name for (name,) in filter(is_text, context.rows("reap_lost_queues"))}
    if context.value("reap_any_unreachable", now=context.now) or any(
        context.value("reap_any_unreachable_group", queue=queue)
        for queue, _, _, _, has_groups in context.rows("claim_stops")
        if has_groups and is_text([queue])
    ):
        set_aside(context)


def unreadable(context: SqliteContext, where: str = ANY) -> Iterator[tuple[int, str]]:
    """The number of each job that cannot be read, and the reason."""
    seq = 0
    rows: list[Any] = [None]
    text = context.sql.filled_in(_SUSPICIOUS.replace("{where}", where))
    while rows:
        rows = context.connection.execute(text, {"seq": seq}).fetchall()
        for row, reason in zip(rows, sql.reasons([row[1:] for row in rows]), strict=True):
            if reason is not None:
                yield row[0], reason
        seq = rows[-1][0] if rows else seq


def stays_unreadable(context: SqliteContext, seq: int) -> bool:
    """Whether this terminal job could not be read either if it were retried."""
    text = context.sql.filled_in(f"select {_COLUMNS} from _mita_job where seq = ?")  # noqa: S608
    return sql.stays_unreadable(context.connection.execute(text, (seq,)).fetchone())
