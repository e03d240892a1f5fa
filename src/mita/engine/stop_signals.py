"""Signals that stop a process, on every system: Windows has fewer of them, and its event loops take
none."""

import asyncio
import signal
from collections.abc import Callable, Iterable
from typing import Any

TICK_S = 0.5  # until a loop notices a signal that it does not take itself


def usual_stop_signals() -> list[signal.Signals]:
    """SIGTERM and Ctrl-C; on Windows also Ctrl-Break."""
    found = [signal.SIGTERM, signal.SIGINT]
    if (ctrl_break := getattr(signal, "SIGBREAK", None)) is not None:
        found.append(ctrl_break)
    return found


def call_on_signals(numbers: Iterable[signal.Signals], act: Callable[[], None]) -> "Undo":
    """Call the function on the running event loop for each of these signals. Only on the main
    thread. Returns a function that ends this."""
    loop, taken = asyncio.get_running_loop(), list(numbers)
    try:
        for number in taken:
            loop.add_signal_handler(number, act)
    except NotImplementedError:  # on Windows: then Python itself calls a function

        def handle(_number: int, _frame: Any) -> None:
            loop.call_soon_threadsafe(act)

        before = {number: signal.signal(number, handle) for number in taken}
        ticks = _Ticks(loop)

        def undo() -> None:
            ticks.stop()
            _restore(before)

        return undo
    return lambda: _remove(loop, taken)


class _Ticks:
    """Wakes the event loop twice a second. Python calls its function for a signal on the main
    thread, when that thread runs code: a loop that sleeps would not notice the signal."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tick()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def stop(self) -> None:
        """Let the loop sleep."""
        self._timer.cancel()


Undo = Callable[[], None]


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)


def _remove(loop: asyncio.AbstractEventLoop, numbers: list[signal.Signals]) -> None:
    for number in numbers:
        loop.remove_signal_handler(number)
