"""When to stop, as the system says it."""

import asyncio
import signal
from collections.abc import Callable


def on_stop(act: Callable[[], None]) -> None:
    """Call it for each SIGTERM and Ctrl-C; also when the terminal is closed, unless that is to be outlived (`nohup`)."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, act)
