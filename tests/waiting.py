"""Waiting for a condition instead of a fixed time: quick on a quick machine, and right on a slow
one."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

LIMIT_S = 60.0  # far longer than anything takes, even on a busy machine
PAUSE_S = 0.01


async def until(condition: Callable[[], Any], what: str = "", within: float = LIMIT_S) -> Any:
    """Wait until `condition` returns something true, and return that. The condition may be an async
    function. After `within` seconds the test fails and says that `what` did not happen."""
    end = time.monotonic() + within
    while not (answer := await _answer(condition)):
        assert time.monotonic() < end, _too_late(condition, what, within)
        await asyncio.sleep(PAUSE_S)
    return answer


def wait_until(condition: Callable[[], Any], what: str = "", within: float = LIMIT_S) -> Any:
    """The same for a test that is not async."""
    end = time.monotonic() + within
    while not (answer := condition()):
        assert time.monotonic() < end, _too_late(condition, what, within)
        time.sleep(PAUSE_S)
    return answer


async def _answer(condition: Callable[[], Any]) -> Any:
    answer = condition()
    return await answer if inspect.isawaitable(answer) else answer


def _too_late(condition: Callable[[], Any], what: str, within: float) -> str:
    return f"not within {within:g} s: {what or getattr(condition, '__name__', condition)}"
