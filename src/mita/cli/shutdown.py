"""How the process of a worker ends."""

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

from .exits import Exit

log = logging.getLogger("mita.cli")

CLOSE_TIMEOUT_S = 2.0


def run_and_abandon_handlers(
    work: Coroutine[Any, Any, Exit], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None
) -> Exit:
    """Like `asyncio.run`, but without waiting for handlers that cannot be cancelled or for their
    threads (`asyncio.to_thread`). Their jobs are back in the queue."""
    threads = ThreadPoolExecutor(thread_name_prefix="asyncio")
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.get_loop().set_default_executor(threads)
        code = runner.run(work)
        if left := runner.run(_tasks_left()) or _threads_left(threads):
            log.warning("ending although %s", left)
            end_process(code)
    return code


def end_within(seconds: float, code: Exit) -> None:
    """End the process after this time at the latest. Python waits at its end for exit hooks,
    threads and process pools that a handler started; what still runs then is logged and killed."""
    threading.Thread(target=_end_after, args=(seconds, code), name="mita-end", daemon=True).start()


def _end_after(seconds: float, code: Exit) -> None:
    time.sleep(seconds)
    pools: Any = sys.modules.get("multiprocessing.process")  # None: no handler has used it
    children = pools.active_children() if pools is not None else []
    threads = [
        one.name
        for one in threading.enumerate()
        if not one.daemon and one is not threading.main_thread()
    ]
    left = [f"thread {name}" for name in threads] + [
        f"process {child.pid} ({child.name})" for child in children
    ]
    log.warning(
        "ending what handlers started and did not stop: %s",
        ", ".join(left) or "something of its own",
    )
    for child in children:
        child.kill()
    end_process(code)


def end_process(code: Exit) -> NoReturn:
    """End the process from any thread, without waiting for others."""
    logging.shutdown()
    # as `sys.stdout.flush()`, also where stdout was closed from the start
    print(end="", flush=True)
    os._exit(code)


async def _tasks_left() -> str:
    """The tasks that could not be cancelled, as text; empty if there are none."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    left = (await asyncio.wait(others, timeout=CLOSE_TIMEOUT_S))[1] if others else set()
    return (
        f"cancelled tasks still run: {', '.join(sorted(task.get_name() for task in left))}"
        if left
        else ""
    )


def _threads_left(threads: ThreadPoolExecutor) -> str:
    closing = threading.Thread(target=threads.shutdown, daemon=True)
    closing.start()
    closing.join(CLOSE_TIMEOUT_S)
    return "a call that a handler made on a thread has not returned" if closing.is_alive() else ""
