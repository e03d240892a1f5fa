"""SQLite does not survive a fork: a child would inherit its locks as they are at that moment, and
nobody to release them.

So the thread of a line closes its connection before a fork, and opens it again when it has
something to do after it."""

import threading
import time
from collections.abc import Callable

from mita import forks

from . import connection


class Rest:
    """The rest that one thread takes around a fork. `wake` puts something into its queue, so that
    it looks."""

    def __init__(self, thread: threading.Thread, wake: Callable[["Rest"], None]) -> None:
        self._thread, self._wake = thread, wake
        # of one fork; the next has others
        self._begun, self._over = threading.Event(), threading.Event()
        self._missed = False
        self.wanted = False
        self.in_child = False  # the thread stayed with the parent
        forks.paused(self)

    def take(self) -> None:
        """On the thread, with nothing open: until the fork has happened."""
        begun, over = self._begun, self._over
        begun.set()
        over.wait()

    # ------------------------------------------------------------ on the thread that forks

    def pause(self) -> None:
        self._begun, self._over = threading.Event(), threading.Event()
        self.wanted = True
        self._wake(self)

    def is_paused(self) -> None:
        deadline = time.monotonic() + forks.FORK_LOCK_TIMEOUT_S
        while self._thread.is_alive() and not self._begun.wait(0.1) and time.monotonic() < deadline:
            pass
        self._missed = self._thread.is_alive() and not self._begun.is_set()

    def go_on(self, *, in_child: bool) -> None:
        self.wanted = False
        self._over.set()
        self.in_child = in_child
        if in_child and self._missed:
            connection.refuse_from_now_on()
