"""The signals that stop a process."""

import asyncio
import signal
from collections.abc import Callable


def on_stop(act: Callable[[], None]) -> None:
    """Call the function for each SIGTERM and Ctrl-C; also when the terminal is closed, unless the
    process ignores that (`nohup`)."""
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, act)


def stop_signals() -> list[signal.Signals]:
    """The signals that ask a process to stop."""
    usual = [signal.SIGTERM, signal.SIGINT]
    return usual if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [*usual, signal.SIGHUP]
