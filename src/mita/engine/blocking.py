"""Runs a worker or a scheduler from sync code."""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any


def run_until_stopped(
    run: Callable[[], Coroutine[Any, Any, None]], stop: Callable[[], None]
) -> None:
    """Run it on the calling thread until it ends. On the main thread SIGTERM and Ctrl-C call
    `stop`."""
    asyncio.run(_run(run, stop))


async def _run(run: Callable[[], Coroutine[Any, Any, None]], stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    numbers = (
        (signal.SIGTERM, signal.SIGINT)
        if threading.current_thread() is threading.main_thread()
        else ()
    )
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        await run()
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
