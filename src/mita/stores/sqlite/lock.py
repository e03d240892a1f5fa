"""A lock between processes that want to write. SQLite's own is not fair: a busy process can shut
the others out."""

import os
from pathlib import Path
from types import TracebackType

from mita import forks

try:
    import fcntl
except ImportError:  # Windows: SQLite's own lock has to do
    fcntl = None  # type: ignore[assignment]


class FairLock:
    """The kernel's file lock on a file beside the database, taken around every write."""

    # seconds after which somebody who waits for it asks whether it will ever be free
    patience = 30.0

    def __init__(self, path: Path) -> None:
        self.waiting = False  # read by other threads: somebody has kept it since we asked
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        # a forked child would share it, and keep it when the parent dies
        forks.left(self, FairLock._descriptors)

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
        fd, self._fd = self._fd, -1
        os.close(fd)
