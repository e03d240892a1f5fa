"""Maintenance: pruning what has expired, and records that cannot be read.

The database keeps every column to its type, but a number may be out of bounds and a word may be
unknown. A call that fails because of what it read is not simply retried. First the waiting and
running jobs whose rows cannot be read are set aside: they become failed jobs and their keys are
freed. Nothing else of their rows is overwritten."""

import psycopg

from mita.ports.pubsub import MESSAGE_RETENTION
from mita.rules.readable import BAD
from mita.stores.shared import sql
from mita.stores.shared.record import JOB

from . import resources
from .audit import prune_audit
from .codec import Row
from .context import PostgresContext, Query, RoundTrip, RoundTrips, query
from .server.arrays import storable, texts

SCAN_ROWS = 1000  # rows read with one statement
_KINDS = sql.Kinds(
    number="{0} not between {low} and {high}", text="false", bytes="false", json="{0} <> '[]'"
)
_SCAN = f"""\
select {", ".join(sql.columns())} from mita._job
where id > %(id)s::text and {{where}} and ({sql.suspicious(_KINDS)})
order by id limit {SCAN_ROWS}"""  # noqa: S608
_ALIVE = "state in {alive}"
_COLUMNS = ("seq", *sql.columns(), "timeline", "memos")
_BYTES = {sql.column(name) for name, field in JOB.items() if field.is_bytes}
_RAW = ", ".join(name if name in _BYTES else f"{name}::text" for name in _COLUMNS)


def prune(_: PostgresContext, limit: int, most: int) -> RoundTrips[int]:
    """Delete ended jobs that have expired, and succeeded ones beyond the newest `most` of their
    queue; `limit` jobs at most. Also delete other rows that have expired. Returns how many jobs
    were deleted."""
    [[(gone,)], queues] = yield RoundTrip(
        query("prune_expired", limit=limit), query("queues"), last=True
    )
    for queue, _paused in queues:
        if gone >= limit:
            break
        [[(more,)]] = yield RoundTrip(
            query("prune_surplus", queue=queue, most=most, limit=limit - gone), last=True
        )
        gone += more
    yield RoundTrip(
        query("prune_rest"),
        query("prune_keys"),
        query("prune_messages", keep=MESSAGE_RETENTION),
        query("prune_subscriptions"),
        prune_audit(),
        query("prune_history"),
        last=True,
    )
    return int(gone)


# ---------------------------------------------------------------------- records that cannot be read


def may_be_a_record(error: Exception) -> bool:
    """Whether a call may have failed because of a row that it read."""
    return isinstance(error, psycopg.DataError) or (
        isinstance(error, BAD) and not isinstance(error, psycopg.Error)
    )


def set_aside(context: PostgresContext) -> RoundTrips[int]:
    """Set aside all waiting and running jobs that cannot be read, and wake jobs that waited for
    their keys. Returns how many were set aside."""
    found = yield from unreadable(context, _ALIVE)
    if not found:
        return 0
    [rows] = yield RoundTrip(resources.aside(found), last=True)
    [free] = yield RoundTrip(query("key_waited"))
    yield from resources.wake_all(context, free)
    return len(rows)


def unreadable(context: PostgresContext, where: str = "true") -> RoundTrips[list[tuple[str, str]]]:
    """The ids of the jobs that cannot be read, each with the reason."""
    found: list[tuple[str, str]] = []
    text = context.statements.fill(_SCAN.replace("{where}", where))
    rows: list[Row] = [("",)]
    while rows:
        [rows] = yield RoundTrip(Query("scan", {"id": rows[-1][0]}, text), last=True)
        found += [
            (row[0], reason)
            for row, reason in zip(rows, sql.reasons(rows), strict=True)
            if reason is not None
        ]
    return found


def stay_unreadable(rows: list[Row]) -> set[str]:
    """Which of these ended jobs could not be read even after a retry, which rewrites some of their
    columns."""
    return {row[0] for row in rows if sql.stays_unreadable(row)}


def whole_rows(context: PostgresContext, ids: list[str]) -> Query:
    """All columns of these jobs."""
    text = (
        f"select {', '.join(sql.columns())} from mita._job where id = any (%(ids)s::text::text[])"  # noqa: S608
    )
    return Query("whole_rows", {"ids": texts(ids)}, context.statements.fill(text))


def raw(context: PostgresContext, id: str) -> RoundTrips[dict[str, bytes] | None]:
    """The columns of a job as they are stored: a text as UTF-8, a number in digits, a list as the
    database prints it. None if there is no such job."""
    text = context.statements.fill(f"select {_RAW} from mita._job where id = %(id)s")  # noqa: S608
    [rows] = yield RoundTrip(Query("raw", {"id": storable(id)}, text), last=True)
    if not rows:
        return None
    return {
        name: bytes(value) if isinstance(value, bytes) else str(value).encode()
        for name, value in zip(_COLUMNS, rows[0], strict=True)
        if value is not None
    }
