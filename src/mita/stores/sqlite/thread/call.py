"""A call on its way from an event loop to a thread, and back."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct


class Call(Struct, eq=False):
    """A verb with its arguments on the way to the thread, and its result on the way back."""

    verb: Callable[..., Any]
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    durable: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None
    given_up: bool = False


def answer(calls: list[Call]) -> None:
    """Hand the results to the event loops, each of which is woken once."""
    for loop in {call.loop for call in calls}:
        mine = [call for call in calls if call.loop is loop]
        with suppress(RuntimeError):  # the loop is closed, and the caller is gone with it
            loop.call_soon_threadsafe(_set_results, mine)


def _set_results(calls: list[Call]) -> None:
    for call in calls:
        if call.future.done():  # the caller was cancelled; the call was made all the same
            continue
        if call.error is not None:
            call.future.set_exception(call.error)
        else:
            call.future.set_result(call.result)
