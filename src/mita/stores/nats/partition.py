"""Much work on keys as several transactions at once.

An atomic batch takes the server milliseconds, most of them not of its processor's time, and holds
at most a thousand messages. So portions are written side by side. All of one key go into one
portion, in their order: portions then do not meet, and nobody overtakes at a key."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def portions(items: Sequence[T], key: Callable[[T], object], most: int) -> list[list[T]]:
    """Of at most so many, but for a key that alone has more."""
    groups: dict[object, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    made: list[list[T]] = []
    for group in groups.values():
        if not made or len(made[-1]) + len(group) > most:
            made.append([])
        made[-1] += group
    return made


async def side_by_side(
    items: Sequence[T],
    key: Callable[[T], object],
    most: int,
    act: Callable[[list[T]], Awaitable[R]],
) -> list[R]:
    """Do it to all, at most so many at a time and those of one key one after the other; what came
    of each portion."""

    async def in_order(portion: list[T]) -> list[R]:
        return [await act(portion[at : at + most]) for at in range(0, len(portion), most)]

    done = await asyncio.gather(*(in_order(portion) for portion in portions(items, key, most)))
    return [result for results in done for result in results]
