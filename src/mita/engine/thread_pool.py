"""Threads for sync handlers. They are daemons: a worker that stops does not wait for a handler that
does not end."""

import asyncio
import queue
import threading
from collections import deque
from contextvars import Context

from mita.model.ending import Ending

from .execution import Execution
from .run import Done, run_sync


class ThreadPool:
    """At most `size` threads, each started when it is first needed. `done` is called on the event
    loop with each run that has ended."""

    def __init__(self, size: int, done: Done) -> None:
        self._size = size
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[Execution | None] = queue.SimpleQueue()
        self._endings: deque[tuple[Execution, Ending]] = deque()
        self._is_collecting = False
        self._started = 0
        self.busy = 0  # runs that are queued or running
        self.running: dict[str, Execution] = {}  # by thread name

    def run(self, execution: Execution) -> None:
        """Run this on the next free thread."""
        self.busy += 1
        if self._started < min(self._size, self.busy):
            self._started += 1
            threading.Thread(
                target=self._work, name=f"mita-handler-{self._started}", daemon=True
            ).start()
        self._queue.put(execution)

    def close(self) -> None:
        """End the threads when they are idle."""
        for _ in range(self._started):
            self._queue.put(None)

    def _work(self) -> None:
        name = threading.current_thread().name
        while (execution := self._queue.get()) is not None:
            self.running[name] = execution
            # a new context: that of the thread may be a copy of another run's
            ending = Context().run(run_sync, execution)
            del self.running[name]
            self._endings.append((execution, ending))
            if not self._is_collecting:  # one call on the loop collects all endings until then
                self._is_collecting = True
                try:
                    self._loop.call_soon_threadsafe(self._collect)
                except RuntimeError:  # the loop is closed: the worker is gone
                    return

    def _collect(self) -> None:
        self._is_collecting = False
        while self._endings:
            execution, ending = self._endings.popleft()
            self.busy -= 1
            self._done(execution, ending)
