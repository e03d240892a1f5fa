"""The findings of `mita doctor`."""

import time
from collections.abc import Iterator

from mita.model.time import SECOND
from mita.model.view import Finding, Health
from mita.stores.shared.aside import finding
from mita.stores.shared.limits import limits_finding

from . import codec, maintenance
from .codec import Row
from .context import PostgresContext, RoundTrip, RoundTrips, query
from .server.migrate import missing

MANY_DEAD_ROWS = 100_000
LONG_SNAPSHOT_S = 60
LONG_EXPIRED_MS = 60 * SECOND
CLOCK_TOLERANCE_MS = 5 * SECOND


def doctor(context: PostgresContext) -> RoundTrips[list[Finding]]:
    """Check the server, the schema and the records."""
    sent = time.time_ns() // 1_000_000
    server, snapshots, dead, leases, migrations, limits = yield RoundTrip(
        query("doctor_server"),
        query("doctor_snapshots"),
        query("doctor_dead_rows"),
        query("reap_first_lease", watermark=0),
        query("doctor_migrations"),
        query("doctor_limits"),
        last=True,
    )
    unreadable = yield from maintenance.unreadable(context)
    return [
        *_server(server[0], sent),
        *_snapshots(snapshots),
        *_dead(dead),
        *_leases(leases[0]),
        *_schema(migrations),
        *_pooler(context.pooled),
        _limits(limits),
        finding([id for id, _ in unreadable], list(_unreadable_limits(limits))),
    ]


def _server(row: Row, sent: int) -> Iterator[Finding]:
    version, commit, fsync, now = row
    yield Finding("engine", f"PostgreSQL {version}")
    if fsync != "on":
        yield Finding(
            "durability",
            "fsync is off: a crash of the machine may lose everything",
            Health.BAD,
            "set fsync = on",
        )
    elif commit == "off":
        remedy = "fine for jobs that can be enqueued again; otherwise set it to on"
        yield Finding(
            "durability",
            "synchronous_commit is off: the last moments may be lost in a crash",
            Health.WARN,
            remedy,
        )
    else:
        yield Finding("durability", f"acknowledged means on disk (synchronous_commit = {commit})")
    offset = sent - now
    if abs(offset) > CLOCK_TOLERANCE_MS:
        found = f"this machine is {offset / SECOND:+.1f} s off the server, whose clock counts"
        yield Finding("clock", found, Health.WARN, "synchronise the clocks of both machines")
    else:
        yield Finding("clock", f"{offset / SECOND:+.3f} s off the server's")


def _snapshots(rows: list[Row]) -> Iterator[Finding]:
    if not rows:
        yield Finding("oldest snapshot", "no session holds one")
        return
    pid, user, application, client, state, seconds, query = rows[0]
    where = f"pid {pid} ({user}, {application or 'no name'}, {client or 'local'})"
    found = f"{where} has held one for {seconds} s, {state}: {query}"
    if seconds < LONG_SNAPSHOT_S:
        yield Finding("oldest snapshot", found)
        return
    remedy = (
        f"dead rows cannot be removed meanwhile: select pg_terminate_backend({pid}), or set "
        "idle_in_transaction_session_timeout"
    )
    yield Finding("oldest snapshot", found, Health.WARN, remedy)


def _dead(rows: list[Row]) -> Iterator[Finding]:
    for dead, live, vacuumed in rows:
        found = (
            f"{dead} beside {live} live ones, last vacuumed "
            f"{'never' if vacuumed is None else f'{vacuumed} s ago'}"
        )
        if dead > max(MANY_DEAD_ROWS, live):
            yield Finding(
                "dead rows",
                found,
                Health.WARN,
                "turn autovacuum on, and end long transactions",
            )
        else:
            yield Finding("dead rows", found)


def _leases(row: Row) -> Iterator[Finding]:
    now, first = row
    late = 0 if first is None else now - first
    if late > LONG_EXPIRED_MS:
        found = f"a lease ended {late // SECOND} s ago and no worker has reaped the job"
        yield Finding("expired leases", found, Health.WARN, "start a worker: any worker reaps them")
    else:
        yield Finding("expired leases", "none")


def _schema(rows: list[Row]) -> Iterator[Finding]:
    done = {name for (name,) in rows}
    left = missing(done, removing=True)
    if left:
        yield Finding(
            "schema",
            f"{len(done)} migrations done; missing: {', '.join(left)}",
            Health.WARN,
            "run `mita migrate`",
        )
    else:
        yield Finding("schema", f"up to date ({max(done, default='nothing')})")


def _limits(rows: list[Row]) -> Finding:
    limits = {
        (queue, key): limit
        for queue, key, found in rows
        if (limit := codec.stored_limit(found)) is not None
    }
    queues = {queue: limit for (queue, key), limit in limits.items() if key is None}
    return limits_finding(queues, {at: limit for at, limit in limits.items() if at[1] is not None})


def _unreadable_limits(rows: list[Row]) -> Iterator[str]:
    for queue, key, found in rows:
        if codec.stored_limit(found) is None:
            yield f"the limit of queue {queue}" if key is None else f"the limit of key {key}"


def _pooler(pooled: bool) -> Iterator[Finding]:
    if pooled:
        yield Finding(
            "pooler",
            "a pooler stands before the server: enqueuing and working are right in every mode, "
            "but in transaction mode workers are not woken (they poll once a second), and "
            "statements are planned each time",
            Health.WARN,
            "give workers a direct URL, or a pool in session mode",
        )
