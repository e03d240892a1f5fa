"""What the doctor looks at."""

import time
from collections.abc import Iterator

from mita.model.time import SECOND
from mita.model.view import Finding, Health

from .migrate import missing
from .steps import Act, Row, Step, Steps, ask

MANY_DEAD = 100_000
LONG_SNAPSHOT = 60  # seconds
FAR_OFF = 5 * SECOND


def doctor(_: Act, pooled: bool) -> Steps[list[Finding]]:
    sent = time.time_ns() // 1_000_000
    server, snapshots, dead, leases, steps = yield Step(
        ask("doctor_server"),
        ask("doctor_snapshots"),
        ask("doctor_dead_rows"),
        ask("first_lease", mark=0),
        ask("steps_done"),
        last=True,
    )
    return [
        *_server(server[0], sent),
        *_snapshots(snapshots),
        *_dead(dead),
        *_leases(leases[0]),
        *_schema(steps),
        *_pooler(pooled),
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
        remedy = "fine for jobs that can be made again; otherwise set it to on"
        yield Finding(
            "durability",
            "synchronous_commit is off: the last moments may be lost in a crash",
            Health.WARN,
            remedy,
        )
    else:
        yield Finding("durability", f"acknowledged means on disk (synchronous_commit = {commit})")
    offset = sent - now
    if abs(offset) > FAR_OFF:
        found = f"this machine is {offset / SECOND:+.1f} s from the server, whose clock decides"
        yield Finding("clock", found, Health.WARN, "synchronise both machines' clocks")
    else:
        yield Finding("clock", f"{offset / SECOND:+.3f} s from the server's")


def _snapshots(rows: list[Row]) -> Iterator[Finding]:
    if not rows:
        yield Finding("oldest snapshot", "none is held")
        return
    pid, user, application, client, state, seconds, query = rows[0]
    where = f"pid {pid} ({user}, {application or 'no name'}, {client or 'local'})"
    found = f"{where} has held one for {seconds} s, {state}: {query}"
    if seconds < LONG_SNAPSHOT:
        yield Finding("oldest snapshot", found)
        return
    remedy = (
        f"dead rows pile up behind it: select pg_terminate_backend({pid}), or set "
        "idle_in_transaction_session_timeout"
    )
    yield Finding("oldest snapshot", found, Health.WARN, remedy)


def _dead(rows: list[Row]) -> Iterator[Finding]:
    for dead, live, swept in rows:
        found = (
            f"{dead} beside {live} live ones, last swept "
            f"{'never' if swept is None else f'{swept} s ago'}"
        )
        if dead > max(MANY_DEAD, live):
            yield Finding(
                "dead rows",
                found,
                Health.WARN,
                "is autovacuum on, and does a long transaction hold it up?",
            )
        else:
            yield Finding("dead rows", found)


def _leases(row: Row) -> Iterator[Finding]:
    now, first = row
    late = 0 if first is None else now - first
    if late > 60 * SECOND:
        found = f"a lease ran out {late // SECOND} s ago and nobody took the job over"
        yield Finding(
            "expired leases", found, Health.WARN, "start a worker: any worker sweeps them"
        )
    else:
        yield Finding("expired leases", "none waiting")


def _schema(rows: list[Row]) -> Iterator[Finding]:
    done = {name for (name,) in rows}
    left = missing(done, removing=True)
    if left:
        yield Finding(
            "schema",
            f"{len(done)} steps done; not yet: {', '.join(left)}",
            Health.WARN,
            "run `mita migrate`",
        )
    else:
        yield Finding("schema", f"up to date ({max(done, default='nothing')})")


def _pooler(pooled: bool) -> Iterator[Finding]:
    if pooled:
        yield Finding(
            "pooler",
            "a pooler stands before the server: enqueuing and working are right in every mode, "
            "but in transaction mode "
            "nobody is woken (workers look once a second), and statements are planned anew each "
            "time",
            Health.WARN,
            "give workers a direct URL, or a pool in session mode",
        )
