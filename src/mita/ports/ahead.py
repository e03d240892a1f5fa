"""Making the next thing while the last is on its way."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


async def one_ahead(
    items: Iterable[T], send: Callable[[T], Coroutine[Any, Any, list[R]]]
) -> list[R]:
    """All that `send` answers, in the order of the items. They are sent one after the other: none
    before the last was answered, and none after one that failed. But each is made (the step of the
    iterator) while the last is on its way, so that whoever makes them and whoever takes them in
    work at the same time."""
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
            under_way.cancel()  # it has ended by now, unless nobody waits for it any more
