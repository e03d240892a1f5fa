"""A fair lock between the processes that write to one file.

SQLite's own lock is not fair: a busy process can keep the others out for long."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mita import forks

try:
    import fcntl
except ImportError:  # Windows: SQLite's own lock is all there is
    fcntl = None  # type: ignore[assignment]


class FileLock:
    """A lock of the operating system on a file beside the database. Every write takes it.

    `acquire` waits for as long as another process has the lock; `release` releases it."""

    acquire: Callable[[], None]
    release: Callable[[], None]

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        self.acquire = self.release = _do_nothing
        if fcntl is not None:
            self.acquire = partial(fcntl.flock, self._fd, fcntl.LOCK_EX)
            self.release = partial(fcntl.flock, self._fd, fcntl.LOCK_UN)
        # A forked child would share the lock, and keep it when the parent dies.
        forks.left(self, FileLock._descriptors)

    def _descriptors(self) -> list[int]:
        return [self._fd]

    def close(self) -> None:
        """Close the lock file."""
        fd, self._fd = self._fd, -1
        os.close(fd)


def _do_nothing() -> None:
    """There is no lock to take."""
