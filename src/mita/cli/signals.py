"""When to stop, as the system says it."""

import asyncio
import os
import signal
from collections.abc import Callable

from .exits import Exit

PATIENCE = 3  # signals after which whoever sends them means it


def on_stop(act: Callable[[], None]) -> None:
    """Call it for each SIGTERM and Ctrl-C; also when the terminal is closed, unless that is to be outlived (`nohup`)."""
    loop = asyncio.get_running_loop()
    for number in _signals():
        loop.add_signal_handler(number, act)


def leave_when_told_again() -> None:
    """After `on_stop`: the last of them ends the process where it stands. The loop would not hear it while a handler holds
    the loop up; this is called between two steps of the handler."""
    told = 0

    def count(*_: object) -> None:
        nonlocal told
        told += 1
        if told >= PATIENCE:
            os._exit(Exit.INTERRUPTED)

    for number in _signals():
        signal.signal(number, count)


def _signals() -> list[signal.Signals]:
    usual = [signal.SIGTERM, signal.SIGINT]
    return usual if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [*usual, signal.SIGHUP]
