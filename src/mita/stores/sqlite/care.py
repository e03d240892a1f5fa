"""Keeping the place in order."""

import os
import shutil
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mita.errors import UsageError
from mita.model.time import SECOND, Moment, Wait, When
from mita.model.view import Finding, Health, WorkerView

from . import aside, pubsub, resources
from .context import Tx, as_json, is_text
from .settle import forget
from .statements import for_namespace, migrations, read

_pack = msgspec.msgpack.Encoder().encode
LITTLE_ROOM = 100_000_000  # bytes
# older ones can lose a checkpoint race, which the lock around every writer rules out
WAL_RESET_MENDED = (3, 51, 3)


def pause(tx: Tx, queues: Sequence[str]) -> None:
    tx.run("know_queues", names=as_json(queues))
    tx.run("pause", names=as_json(queues), now=tx.now)


def resume(tx: Tx, queues: Sequence[str]) -> None:
    tx.run("resume", names=as_json(queues))
    tx.topics.update(queues)


def hold(tx: Tx, queues: Sequence[str], key: str, until: When) -> None:
    for queue in queues:
        resources.hold(tx, queue, key, until)


def beat(tx: Tx, worker: WorkerView, keep: Wait) -> Moment:
    seen = msgspec.structs.replace(worker, seen=tx.now)
    tx.run("beat", id=worker.id, view=_pack(seen), seen=tx.now, until=tx.now + keep)
    tx.run("forget_workers", now=tx.now)
    return tx.now


def leave(tx: Tx, worker: str) -> None:
    tx.run("leave", id=worker)


def prune(tx: Tx, limit: int, most: int) -> int:
    gone = _forget(tx, tx.rows("past_their_time", now=tx.now, limit=limit))
    for name in [name for name, _ in tx.rows("queues") if is_text([name])]:
        gone += _forget(tx, tx.rows("surplus", queue=name, most=most, limit=limit - gone))
    tx.run("forget_shared_memos", now=tx.now)
    tx.run("forget_uniques", now=tx.now)
    tx.run("forget_locks", now=tx.now)
    pubsub.forget(tx)
    return gone


def _forget(tx: Tx, rows: list[tuple[int]]) -> int:
    if rows:
        forget(tx, [seq for (seq,) in rows])
    return len(rows)


def migrate(tx: Tx) -> list[str]:
    """Run the steps that are missing. The lock is held, so a second process that starts now waits
    and finds them done."""
    namespace = tx.sql.namespace
    there = tx.connection.execute(
        "select 1 from sqlite_master where name = ?", (f"_{namespace}_meta",)
    ).fetchone()
    version = int(tx.one("version")) if there else 0
    newest = migrations()[-1][0]
    if version > newest:
        raise too_new(version, newest)
    steps = [(number, name) for number, name in migrations() if number > version]
    for _, name in steps:
        for statement in for_namespace(read("migrations", name), namespace).split(";\n"):
            if statement.strip():
                tx.connection.execute(statement)
    if steps:
        tx.run("set_version", version=str(steps[-1][0]))
    return [name for _, name in steps]


def too_new(version: int, newest: int) -> UsageError:
    return UsageError(
        f"this file has schema {version}, and this Mita knows only up to {newest}: "
        "it was written by a newer one. Upgrade Mita, or use another file"
    )


def doctor(tx: Tx) -> list[Finding]:
    path = tx.path
    return [
        _version(),
        _setting(
            tx,
            "journal_mode",
            "wal",
            "write-ahead log",
            "a reader and a writer can work at the same time",
        ),
        _setting(
            tx, "synchronous", 2, "durability", "acknowledged means on disk (synchronous=FULL)"
        ),
        Finding("schema", f"version {tx.one('version')}, namespace {tx.sql.namespace!r}"),
        _rights(path),
        _log_size(path),
        _disk(path),
        _overdue(tx),
        aside.doctor(tx),
        _integrity(tx),
    ]


def _version() -> Finding:
    found = f"SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < WAL_RESET_MENDED:
        found += (
            "; its checkpoint race is kept out by the lock beside the file: write to this "
            "file through Mita only"
        )
    return Finding("engine", found)


def _setting(tx: Tx, pragma: str, wanted: object, what: str, good: str) -> Finding:
    [value] = tx.connection.execute(f"pragma {pragma}").fetchone()
    if value == wanted:
        return Finding(what, good)
    return Finding(
        what,
        f"{pragma} is {value}, not {wanted}",
        Health.BAD,
        "is the file on a network share? Move it to a disk",
    )


def _rights(path: Path) -> Finding:
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
    megabytes = log.stat().st_size / 1e6 if log.exists() else 0.0
    found = f"{megabytes:.1f} MB beside {path.stat().st_size / 1e6:.1f} MB"
    if megabytes > 200:
        return Finding(
            "log size",
            found,
            Health.WARN,
            "a process keeps an old snapshot open: end it, and it shrinks",
        )
    return Finding("log size", found)


def _disk(path: Path) -> Finding:
    left = shutil.disk_usage(path.parent).free
    found = f"{left / 1e6:,.0f} MB left"
    if left < LITTLE_ROOM:
        return Finding(
            "disk",
            found,
            Health.WARN,
            "free some room: on a full disk nothing is enqueued and nothing ends",
        )
    return Finding("disk", found)


def _overdue(tx: Tx) -> Finding:
    oldest = tx.one("oldest_lease")
    late = 0 if oldest is None else tx.now - oldest
    if late > 60 * SECOND:
        found = f"a lease ran out {late // SECOND} s ago and nobody took the job over"
        return Finding(
            "expired leases", found, Health.WARN, "start a worker: any worker sweeps them"
        )
    return Finding("expired leases", "none waiting")


def _integrity(tx: Tx) -> Finding:
    [answer] = tx.connection.execute("pragma quick_check(1)").fetchone()
    if answer == "ok":
        return Finding("integrity", "ok")
    return Finding(
        "integrity",
        str(answer),
        Health.BAD,
        "stop all workers, copy the file, and try `sqlite3 FILE .recover`",
    )
