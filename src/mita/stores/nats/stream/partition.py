"""Splitting work on keys into several transactions that run in parallel.

The server takes milliseconds for an atomic batch, most of them not processor time, and a batch
holds at most a thousand messages. So the work is split into parts that are written in parallel. All
items of one key are in one part, in their order. So two parts never write the same record, and the
order at a key is kept."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def partition(items: Sequence[T], key: Callable[[T], object], most: int) -> list[list[T]]:
    """Returns parts of at most `most` items. Only a key that has more makes a larger part."""
    groups: dict[object, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    parts: list[list[T]] = []
    for group in groups.values():
        if not parts or len(parts[-1]) + len(group) > most:
            parts.append([])
        parts[-1] += group
    return parts


async def in_parallel(
    items: Sequence[T],
    key: Callable[[T], object],
    most: int,
    act: Callable[[list[T]], Awaitable[R]],
) -> list[R]:
    """Call `act` with at most `most` items at a time, in parallel for different keys and one after
    the other for the same key. Returns the result of each call."""

    async def in_order(part: list[T]) -> list[R]:
        return [await act(part[at : at + most]) for at in range(0, len(part), most)]

    done = await asyncio.gather(*(in_order(part) for part in partition(items, key, most)))
    return [result for results in done for result in results]
