"""One call on its way to the thread that does it, and back."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .context import Tx

Work = Callable[[Tx], Any]


class Call:
    """Made on the caller's loop. `durable`: what it writes is on disk before it is answered."""

    __slots__ = ("durable", "error", "future", "given_up", "loop", "result", "work")

    def __init__(self, work: Work, durable: bool = True) -> None:
        self.work = work
        self.durable = durable
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: Exception | None = None
        self.given_up = False

    async def answered(self, patience: float, stuck: Callable[[], Exception | None]) -> Any:
        """Wait for the answer. Every `patience` seconds `stuck` is asked whether there is a reason
        to give up."""
        timer = self.loop.call_later(patience, self._ask, patience, stuck)
        try:
            return await self.future
        finally:
            if not self.given_up:
                timer.cancel()

    def _ask(self, patience: float, stuck: Callable[[], Exception | None]) -> None:
        if self.future.done():
            return
        if (error := stuck()) is None:
            self.loop.call_later(patience, self._ask, patience, stuck)
            return
        self.given_up = True  # nobody waits for it any more, so it must not be done later
        self.future.set_exception(error)

    def answer(self) -> None:
        if self.future.done():  # the caller was cancelled; the work is done all the same
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


def answer(calls: list[Call]) -> None:
    """From the thread: one knock at each loop for all its calls."""
    for loop in {call.loop for call in calls}:
        mine = [call for call in calls if call.loop is loop]
        with suppress(RuntimeError):  # the loop is gone, and with it whoever asked
            loop.call_soon_threadsafe(_answer_all, mine)


def _answer_all(calls: list[Call]) -> None:
    for call in calls:
        call.answer()
