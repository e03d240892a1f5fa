"""A fair lock between the processes that write to one file.

SQLite's own lock is not fair: a busy process can keep the others out for long."""

import os
from pathlib import Path
from types import TracebackType

from mita import forks

try:
    import fcntl
except ImportError:  # Windows: SQLite's own lock is all there is
    fcntl = None  # type: ignore[assignment]


class FileLock:
    """A lock of the operating system on a file beside the database. Every write takes it."""

    def __init__(self, path: Path) -> None:
        # Read by other threads: this one waits for another process to release the lock.
        self.waiting = False
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        # A forked child would share the lock, and keep it when the parent dies.
        forks.left(self, FileLock._descriptors)

    def _descriptors(self) -> list[int]:
        return [self._fd]

    def __enter__(self) -> None:
        if fcntl is not None:
            self.waiting = True
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            self.waiting = False

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if fcntl is not None:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the lock file."""
        fd, self._fd = self._fd, -1
        os.close(fd)
