"""Whether the process of a worker or a scheduler is alive, and whether it can work now. The answers
are given on request: nothing is measured meanwhile."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from mita.ports.store import Store

STUCK_AFTER_S = 30.0  # without a turn of the event loop, the process counts as not alive
LOOP_ANSWER_S = 0.5  # that a request waits for a turn
STORE_ANSWER_S = 2.0  # that a request waits for the store


class Pulse:
    """Made on the event loop of the worker; other threads ask. `store` is what the worker works
    with: None before it was opened, and after it was closed."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), stopping
        self._asking = threading.Lock()
        self._asked: float | None = None  # when the loop was asked for a turn that it has not made
        self._turned = threading.Event()
        self.store: Store | None = None

    def why_not_live(self) -> str:
        """Returns why the process should be restarted; empty if it is alive: its event loop turns.
        A store that is away, and a loop that is held up for a short time, are no reasons."""
        with self._asking:
            if self._asked is None:
                self._asked = time.monotonic()
                self._turned.clear()
                with suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self._turn)
            asked = self._asked
        if self._turned.wait(LOOP_ANSWER_S):
            return ""
        stuck = time.monotonic() - asked
        if stuck < STUCK_AFTER_S:
            return ""
        return f"the event loop has been held up for {stuck:.0f} s"

    def _turn(self) -> None:
        self._asked = None
        self._turned.set()

    def why_not_ready(self) -> str:
        """Returns why the process cannot work now; empty if it can: it is not stopping, and its
        store answers."""
        if self._stopping.is_set():
            return "it is stopping"
        store = self.store
        if store is None:
            return "the store was not reached yet"
        asking = store.now()
        answer = self._on_loop(asking)
        if answer is None:
            asking.close()
            return "it has ended"
        try:
            answer.result(STORE_ANSWER_S)
        except TimeoutError:
            answer.cancel()
            return f"the store has not answered for {STORE_ANSWER_S:g} s"
        except Exception as error:  # noqa: BLE001 - whatever it is, the store cannot be used
            return f"the store cannot be reached ({type(error).__name__})"
        return ""

    def _on_loop(self, asking: Coroutine[Any, Any, Any]) -> "Future[Any] | None":
        try:
            return asyncio.run_coroutine_threadsafe(asking, self._loop)
        except RuntimeError:  # the loop is closed
            return None
