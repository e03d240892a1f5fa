"""Opening the file, and translating the errors of SQLite.

The tables of a file, for the namespace `mita` (the migrations have the columns):

    _mita_job ◄─── seq ─── _mita_event        the lines of its timeline
       │      ◄─── seq ─── _mita_once_value   its once values (0: shared by all jobs)
       │      ◄─── seq ─── _mita_tag          its tags
       │      ◄─── id ──── _mita_unique       the unique key that it has
       │      ◄─── seq ─── _mita_holder       the further keys that it has while it runs
       │ queue, keys
       ├───────► _mita_queue    the queues: since when they are paused, their limit and their rate
       │            ◄─── queue, priority ─── _mita_turn   how far the turns of its groups are
       │            ◄─── queue, priority ─── _mita_share  groups that are ahead of that
       ├───────► _mita_hold     keys on hold
       └───────► _mita_key      keys with a rate or a stored limit; when they wake the next job

    _mita_repeat  the repeats            _mita_meta          version of the schema, and the clock
    _mita_worker  heartbeats             _mita_subscription  subscriptions to events
    _mita_lock    which scheduler leads  _mita_message       messages for the subscribers

    mita_jobs     a view of the jobs for people

Beside the file are its write-ahead log (`-wal`, `-shm`) and the lock of the writers (`-lock`).
"""

import logging
import os
import sqlite3
import sys
import threading
import time
from pathlib import Path

from mita import forks
from mita.errors import MitaError, Rejected, StoreError, UsageError

from .codec import decode_text

LOG_RETRY_S = 0.01
OLDEST_SQLITE = (3, 35, 0)
# With the fair lock, only a transaction of another program can make Mita wait.
BUSY_TIMEOUT_S = 30.0
CHECKPOINT_PAGES = 4000
CACHED_STATEMENTS = 512
RESERVE_BYTES = 16_384  # of a row, for everything but the arguments and the result of a job

_TRANSIENT = {
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
    "SQLITE_FULL",
    "SQLITE_IOERR",
    "SQLITE_CANTOPEN",
    "SQLITE_PROTOCOL",
}
# The error is in what was to be written, not in the file.
_REJECTED = {"SQLITE_TOOBIG", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH"}
_REMEDIES = {
    "SQLITE_FULL": "Free some space: what was acknowledged is safe, and work goes on by itself",
    "SQLITE_CORRUPT": "Stop all workers, copy the file, and try `sqlite3 FILE .recover`, or "
    "restore a backup",
    "SQLITE_READONLY": "Fix the rights of the file, its folder and its disk",
    "SQLITE_IOERR": "The disk failed, or it is not a local disk: see the system's log",
}
_NO_RIGHTS = "this user may not write there. Fix its rights, or choose another file"
log = logging.getLogger("mita.store")
_refused = False
_one_at_a_time = forks.guarded(threading.Lock())


def prepare(path: Path) -> None:
    """Create the file if it is missing, readable by its owner only. Raises if that is not possible
    or the file cannot be written."""
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
    """Raises `UsageError` if the folder of the file is missing, or the file is a folder."""
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
    """Create the file. An existing file must never be opened and closed here: closing any handle on
    a file drops the locks that SQLite holds on it in this process, and then another process that
    closes the file deletes the log that this one uses."""
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
    """For a child that was forked while its parent was inside SQLite: the locks that the parent had
    stay locked in the child."""
    global _refused  # noqa: PLW0603 - it is about the process
    _refused = True


def connect(path: Path) -> sqlite3.Connection:
    """A connection that syncs every commit to disk. The caller has prepared the file and holds its
    lock."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise UsageError(f"SQLite {sqlite3.sqlite_version} is too old: Mita needs 3.35 or later")
    # Autocommit: the transactions are begun by hand. One thread uses the connection, but another
    # may close it.
    connection = sqlite3.connect(
        path,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=CACHED_STATEMENTS,
    )
    connection.text_factory = decode_text
    try:
        _use_write_ahead_log(connection)
        connection.execute("pragma synchronous = full").fetchall()
        if sys.platform == "darwin":  # there, a plain sync leaves data in the cache of the disk
            connection.execute("pragma fullfsync = on").fetchall()
        connection.execute(f"pragma wal_autocheckpoint = {CHECKPOINT_PAGES}").fetchall()
        connection.execute("pragma temp_store = memory").fetchall()
    except sqlite3.Error as error:
        connection.close()
        raise translated(error, path) from error
    return connection


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """On systems without file locks (Windows), two connections may create the log of a new file at
    once. SQLite does not wait there: the second one finds the file locked and tries again."""
    end = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("pragma journal_mode = wal").fetchall()
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > end:
                raise
            time.sleep(LOG_RETRY_S)
        else:
            return


def translated(error: Exception, path: Path) -> Exception:
    """Mita's error for an error of SQLite or of the file system. Other errors are returned as they
    are."""
    if isinstance(error, OverflowError | UnicodeEncodeError):  # a value that SQLite cannot store
        ours: Exception = Rejected(f"{path}: {error}")
    elif isinstance(error, sqlite3.Error | OSError):
        ours = _translated(error, path)
    else:
        return error
    ours.__cause__ = error
    return ours


def _translated(error: sqlite3.Error | OSError, path: Path) -> MitaError:
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
        f"{path}: {error} ({name or type(error).__name__}){remedy}", transient=base in _TRANSIENT
    )


def room(connection: sqlite3.Connection) -> int:
    """How many bytes the arguments and the result of a job may have. A claim reads arguments as
    hexadecimal text, which is twice as long."""
    return (connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) - RESERVE_BYTES) // 2
