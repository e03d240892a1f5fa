"""Warns if the event loop is blocked: an async handler that does not await stops everything else in
its worker."""

import asyncio
import logging
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

from . import run

log = logging.getLogger("mita.worker")

BLOCKED_AFTER_S = 5.0  # without an answer; then there is a warning


class LoopWatchdog:
    """Made on the event loop's thread; `check` is called on another one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._thread = loop, threading.get_ident()
        self._asked: float | None = None
        self._told = False

    def check(self) -> None:
        """Check whether the event loop answers, and log a warning with the line that blocks it."""
        now = time.monotonic()
        if self._asked is None:
            self._asked = now
            with suppress(RuntimeError):  # the loop is closed: the worker is gone
                self._loop.call_soon_threadsafe(self._answer)
        elif now - self._asked >= BLOCKED_AFTER_S and not self._told:
            self._told = True
            log.warning(
                "the event loop has been held up for %.0f s, and nothing else runs meanwhile: %s. "
                "Await there, or make the handler a plain function, which runs on a thread",
                now - self._asked,
                # the only way to see the stack of another thread
                _place(sys._current_frames().get(self._thread)),  # noqa: SLF001
            )

    def _answer(self) -> None:
        if self._told and self._asked is not None:
            log.warning("the event loop runs again after %.0f s", time.monotonic() - self._asked)
        self._asked, self._told = None, False


def _place(frame: FrameType | None) -> str:
    """The line of the handler that is running, or the innermost line if no handler is."""
    if frame is None:
        return "an unknown line"
    within = frame
    while within.f_back is not None and within.f_back.f_code.co_filename != run.__file__:
        within = within.f_back
    found = frame if within.f_back is None else within
    return (
        f'File "{found.f_code.co_filename}", line {found.f_lineno}, in {found.f_code.co_qualname}'
    )
