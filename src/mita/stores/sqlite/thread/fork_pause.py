"""What a thread with an SQLite connection does when its process forks.

SQLite does not survive a fork: the child would inherit its locks, and no thread that releases them.
So the thread closes its connection before a fork, and opens it again for the next call after it."""

import threading
import time
from collections.abc import Callable

from mita import forks
from mita.stores.sqlite import connection

PAUSE_CHECK_S = 0.1  # how often the forking thread checks that the paused thread is still alive


class ForkPause:
    """The pause of one thread around a fork. `wake` puts something into the queue of the thread, so
    that it notices."""

    def __init__(self, thread: threading.Thread, wake: Callable[["ForkPause"], None]) -> None:
        self._thread, self._wake = thread, wake
        # of one fork; the next fork has new ones
        self._begun, self._over = threading.Event(), threading.Event()
        self._missed = False
        self.wanted = False
        self.in_child = False  # the thread stayed with the parent

    def wait_for_fork(self) -> None:
        """On the paused thread, which has nothing open: wait until the fork has happened."""
        begun, over = self._begun, self._over
        begun.set()
        over.wait()

    # ------------------------------------------------------------ on the thread that forks

    def pause(self) -> None:
        """Ask the thread to pause."""
        self._begun, self._over = threading.Event(), threading.Event()
        self.wanted = True
        self._wake(self)

    def is_paused(self) -> None:
        """Wait until the thread has paused, but not longer than a fork may take."""
        deadline = time.monotonic() + forks.FORK_LOCK_TIMEOUT_S
        while (
            self._thread.is_alive()
            and not self._begun.wait(PAUSE_CHECK_S)
            and time.monotonic() < deadline
        ):
            pass
        self._missed = self._thread.is_alive() and not self._begun.is_set()

    def go_on(self, *, in_child: bool) -> None:
        """Let the thread continue, in the parent. A child of a thread that did not pause in time
        must not use SQLite."""
        self.wanted = False
        self._over.set()
        self.in_child = in_child
        if in_child and self._missed:
            connection.refuse_from_now_on()
