"""Opening the file, and turning the driver's errors into ours."""

import logging
import os
import sqlite3
import threading
from pathlib import Path

from mita import forks
from mita.errors import MitaError, Rejected, StoreError, UsageError

from .context import as_text

OLDEST_SQLITE = (3, 35, 0)
BUSY_TIMEOUT = 30.0  # seconds; with the fair lock only a stranger's transaction can make us wait
CHECKPOINT_PAGES = 4000
RESERVE = 16_384  # bytes of a row that are left for all but the arguments and the result of a job

_PASSING = {
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
    "SQLITE_FULL",
    "SQLITE_IOERR",
    "SQLITE_CANTOPEN",
    "SQLITE_PROTOCOL",
}
# for what was to be written, not for the file
_REJECTED = {"SQLITE_TOOBIG", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH"}
_REMEDIES = {
    "SQLITE_FULL": "Free some room: what was acknowledged is safe, and work goes on by itself",
    "SQLITE_CORRUPT": "Stop all workers, copy the file, and try `sqlite3 FILE .recover`, or "
    "restore a backup",
    "SQLITE_READONLY": "Mend the rights of the file, its folder and its disk",
    "SQLITE_IOERR": "The disk failed, or is not a local one: look at the system's log",
}
_NO_RIGHTS = "this user may not write there. Mend its rights, or choose another"
log = logging.getLogger("mita.store")
_refused = False
_one_at_a_time = forks.guarded(threading.Lock())


def prepare(path: Path) -> None:
    """That the file can be there, and is readable by its owner only."""
    if _refused:
        raise StoreError(
            f"cannot open {path}: this process was forked while its parent waited inside SQLite, "
            "and would wait for ever. "
            "Fork before the app is used, or start processes with the method 'spawn'",
            transient=False,
        )
    check_folder(path)
    with _one_at_a_time:
        if not path.exists():
            _create(path)
    if not os.access(path, os.R_OK | os.W_OK):
        raise UsageError(f"cannot open {path}: {_NO_RIGHTS}")


def check_folder(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(
            f"cannot open {path}: the folder {folder} does not exist. Create it, or choose "
            "another file"
        )
    if path.is_dir():
        raise UsageError(
            f"cannot open {path}: it is a folder. Name a file, for example sqlite:///{path}/jobs.db"
        )


def _create(path: Path) -> None:
    """Only where there is none. An existing file must never be opened and closed here: closing any
    handle on it drops the locks that SQLite holds on it in this process, and then another process
    that leaves takes the log away under us."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        log.info("created the new file %s", path)
    except FileExistsError:
        return
    except PermissionError as error:
        raise UsageError(f"cannot open {path}: {_NO_RIGHTS}") from error
    except OSError as error:
        raise StoreError(f"cannot open {path}: {error.strerror}", transient=False) from error


def refuse_from_now_on() -> None:
    """In a child that was forked while the parent was inside SQLite: whatever it had locked there
    stays locked here."""
    global _refused  # noqa: PLW0603 - it is about the process
    _refused = True


def connect(path: Path) -> sqlite3.Connection:
    """A connection as durable as we promise: what is committed is on disk. The file is prepared,
    and its lock is held."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise UsageError(f"SQLite {sqlite3.sqlite_version} is too old: Mita needs 3.35 or later")
    # Autocommit: we say ourselves where a transaction begins. One thread uses the connection, but
    # another may close it.
    connection = sqlite3.connect(
        path,
        timeout=BUSY_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=512,
    )
    connection.text_factory = as_text
    try:
        connection.execute("pragma journal_mode = wal").fetchall()
        connection.execute("pragma synchronous = full").fetchall()
        connection.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}").fetchall()
        connection.execute("pragma temp_store = memory").fetchall()
    except sqlite3.Error as error:
        connection.close()
        raise translated(error, path) from error
    return connection


def translated(error: sqlite3.Error | OSError, path: Path) -> MitaError:
    """Our error for the driver's."""
    name = getattr(error, "sqlite_errorname", "") or ""
    if name == "SQLITE_NOTADB":
        return UsageError(
            f"{path} is not an SQLite database. Name another file, or move this one away"
        )
    base = "_".join(name.split("_")[:2])
    if base in _REJECTED:
        return Rejected(f"{path}: {error} ({name})")
    remedy = f". {_REMEDIES[base]}" if base in _REMEDIES else ""
    return StoreError(
        f"{path}: {error} ({name or type(error).__name__}){remedy}", transient=base in _PASSING
    )


def room(connection: sqlite3.Connection) -> int:
    """How many bytes of a job a row has room for. A claim reads arguments as hexadecimal text,
    which is twice as long."""
    return (connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) - RESERVE) // 2
