"""What is wrong with the file, and how to fix it."""

import os
import shutil
import sqlite3
import stat
from pathlib import Path

from mita.model.time import SECOND, Wait
from mita.model.view import Finding, Health
from mita.stores.shared.aside import finding
from mita.stores.shared.limits import limits_finding
from mita.stores.shared.views import as_name

from . import maintenance
from .context import SqliteContext
from .limits.key_states import as_limit

DISK_FREE_BYTES = 100_000_000  # less is a warning
LOG_SIZE_BYTES = 200_000_000  # more is a warning
LEASE_OVERDUE: Wait = 60 * SECOND
# Older versions can lose data when two checkpoints race. The lock around every writer prevents it.
CHECKPOINT_RACE_FIXED = (3, 51, 3)


def doctor(context: SqliteContext) -> list[Finding]:
    """Examine the engine, the file, the disk and the records."""
    version, namespace = context.value("migrate_version"), context.sql.namespace
    return [
        _engine(),
        _setting(
            context,
            "journal_mode",
            "wal",
            "write-ahead log",
            "a reader and a writer can work at the same time",
        ),
        _setting(
            context, "synchronous", 2, "durability", "acknowledged means on disk (synchronous=FULL)"
        ),
        Finding("schema", f"version {version}, namespace {namespace!r}"),
        _file_mode(context.path),
        _log_size(context.path),
        _disk(context.path),
        _expired_leases(context),
        _limits(context),
        finding([_name(context, seq) for seq, _ in maintenance.unreadable(context)]),
        _integrity(context),
    ]


def _engine() -> Finding:
    found = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < CHECKPOINT_RACE_FIXED:
        found += (
            "; its checkpoint race is kept out by the lock beside the file: write to this "
            "file through Mita only"
        )
    return Finding("engine", found)


def _setting(context: SqliteContext, pragma: str, wanted: object, what: str, good: str) -> Finding:
    [value] = context.connection.execute(f"pragma {pragma}").fetchone()
    if value == wanted:
        return Finding(what, good)
    return Finding(
        what,
        f"{pragma} is {value}, not {wanted}",
        Health.BAD,
        "is the file on a network share? Move it to a disk",
    )


def _file_mode(path: Path) -> Finding:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077 and os.name == "posix":
        return Finding(
            "file mode",
            f"{mode:04o}: others can read every argument",
            Health.WARN,
            f"chmod 600 {path}",
        )
    return Finding("file mode", f"{mode:04o}")


def _log_size(path: Path) -> Finding:
    log = Path(f"{path}-wal")
    size = log.stat().st_size if log.exists() else 0
    found = f"{size / 1e6:.1f} MB beside {path.stat().st_size / 1e6:.1f} MB"
    if size > LOG_SIZE_BYTES:
        return Finding(
            "log size",
            found,
            Health.WARN,
            "a process keeps an old snapshot open: end it, and the log shrinks",
        )
    return Finding("log size", found)


def _disk(path: Path) -> Finding:
    left = shutil.disk_usage(path.parent).free
    found = f"{left / 1e6:,.0f} MB left"
    if left < DISK_FREE_BYTES:
        return Finding(
            "disk",
            found,
            Health.WARN,
            "free some space: on a full disk nothing is enqueued and nothing ends",
        )
    return Finding("disk", found)


def _expired_leases(context: SqliteContext) -> Finding:
    oldest = context.value("doctor_oldest_lease")
    late = 0 if oldest is None else context.now - oldest
    if late > LEASE_OVERDUE:
        found = f"a lease expired {late // SECOND} s ago and no worker took the job over"
        return Finding(
            "expired leases", found, Health.WARN, "start a worker: every worker takes them over"
        )
    return Finding("expired leases", "none waiting")


def _limits(context: SqliteContext) -> Finding:
    queues, keys, unreadable = {}, {}, []
    for name, _, text, *_ in context.rows("claim_stops"):
        if (limit := as_limit(text)) is not None:
            queues[as_name(name)] = limit
        elif text is not None:
            unreadable.append(f"queue {as_name(name)}")
    for queue, key, *_, text in context.rows("resources_records", queue=None, key=None):
        if (limit := as_limit(text)) is not None:
            keys[as_name(queue), as_name(key)] = limit
        elif text is not None:
            unreadable.append(f"key {as_name(key)} of {as_name(queue)}")
    return limits_finding(queues, keys, unreadable)


def _name(context: SqliteContext, seq: int) -> str:
    text = context.sql.filled_in("select id from _mita_job where seq = ?")
    id = context.connection.execute(text, (seq,)).fetchone()[0]
    return id if isinstance(id, str) and id.isascii() else f"row {seq}"


def _integrity(context: SqliteContext) -> Finding:
    [answer] = context.connection.execute("pragma quick_check(1)").fetchone()
    if answer == "ok":
        return Finding("integrity", "ok")
    return Finding(
        "integrity",
        str(answer),
        Health.BAD,
        "stop all workers, copy the file, and try `sqlite3 FILE .recover`",
    )
