"""Preparing the next batch while the store handles the last one."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def one_ahead(
    items: Iterable[T], send: Callable[[T], Coroutine[Any, Any, list[R]]]
) -> list[R]:
    """Send the items one after the other and return all answers, in their order. An item is sent
    when the answer to the one before is there, and none is sent after one that failed. But each
    item is made (one step of the iterator) while the one before is on its way, so that making and
    storing overlap."""
    answers: list[R] = []
    under_way: asyncio.Task[list[R]] | None = None
    try:
        for item in items:
            if under_way is not None:
                answers += await under_way
            under_way = asyncio.create_task(send(item))
            await asyncio.sleep(0)  # it takes its first step,
            await asyncio.sleep(0)  # and what it wrote leaves the buffers of the event loop
        return answers if under_way is None else answers + await under_way
    finally:
        if under_way is not None:
            under_way.cancel()  # it has ended by now, unless the caller was cancelled
