"""Runs a worker or a scheduler from sync code."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from .stop_signals import call_on_signals, usual_stop_signals


def run_until_stopped(
    run: Callable[[], Coroutine[Any, Any, None]], stop: Callable[[], None]
) -> None:
    """Run it on the calling thread until it ends. On the main thread SIGTERM and Ctrl-C call
    `stop`."""
    asyncio.run(_run(run, stop))


async def _run(run: Callable[[], Coroutine[Any, Any, None]], stop: Callable[[], None]) -> None:
    is_main = threading.current_thread() is threading.main_thread()
    undo = call_on_signals(usual_stop_signals(), stop) if is_main else None
    try:
        await run()
    finally:
        if undo is not None:
            undo()
