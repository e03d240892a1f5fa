"""Threads for handlers that are plain functions: fed one by one, collected in groups.

They are daemons: a worker that leaves does not wait for a handler that will not end.
"""

import asyncio
import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable

from mita.model.outcome import Ending

from .execution import Execution
from .run import run_sync


class ThreadPool:
    """At most `size` threads, each started when it is first needed. `done` is called on the event
    loop with each run that has ended."""

    def __init__(self, size: int, done: Callable[[Execution, Ending], None]) -> None:
        self._size = size
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._todo: queue.SimpleQueue[Execution | None] = queue.SimpleQueue()
        self._endings: deque[tuple[Execution, Ending]] = deque()
        self._knocked = False
        self._started = 0
        self.busy = 0  # given out and not come back
        self.running: dict[str, Execution] = {}  # by the name of its thread

    def run(self, execution: Execution) -> None:
        """Run this on the next free thread."""
        self.busy += 1
        if self._started < min(self._size, self.busy):
            self._started += 1
            threading.Thread(
                target=self._work, name=f"mita-handler-{self._started}", daemon=True
            ).start()
        self._todo.put(execution)

    def close(self) -> None:
        for _ in range(self._started):
            self._todo.put(None)

    def _work(self) -> None:
        context, name = contextvars.copy_context(), threading.current_thread().name
        while (execution := self._todo.get()) is not None:
            self.running[name] = execution
            ending = context.copy().run(run_sync, execution)
            del self.running[name]
            self._endings.append((execution, ending))
            if not self._knocked:  # one knock at the loop for all that end before it answers
                self._knocked = True
                try:
                    self._loop.call_soon_threadsafe(self._collect)
                except RuntimeError:  # the loop is closed: nobody waits for this any more
                    return

    def _collect(self) -> None:
        self._knocked = False
        while self._endings:
            execution, ending = self._endings.popleft()
            self.busy -= 1
            self._done(execution, ending)
