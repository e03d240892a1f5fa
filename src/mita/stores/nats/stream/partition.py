"""Splitting work on keys into several transactions that run in parallel.

The server takes milliseconds for an atomic batch, most of them not processor time, and a batch
holds at most a thousand messages. So the work is split into parts that are written in parallel. All
items that have a key in common are in one part, in their order. So two parts never write the same
record, and the order at a key is kept."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def partition(
    items: Sequence[T], keys: Callable[[T], Collection[Hashable]], most: int
) -> list[list[T]]:
    """Returns parts of at most `most` items. Only items that share keys make a larger part."""
    parts: list[list[T]] = []
    for group in _groups(items, keys):
        if not parts or len(parts[-1]) + len(group) > most:
            parts.append([])
        parts[-1] += group
    return parts


def _groups(items: Sequence[T], keys: Callable[[T], Collection[Hashable]]) -> list[list[T]]:
    """Returns the items, those that share a key together, directly or through other items."""
    group_of: dict[Hashable, list[int]] = {}
    for at, item in enumerate(items):
        of_item = keys(item)
        met = {id(group): group for key in of_item if (group := group_of.get(key)) is not None}
        group, *others = met.values() or [list[int]()]
        group.append(at)
        for other in others:
            group += other
        group_of.update(dict.fromkeys(of_item, group))
        if others:
            merged = set(map(id, others))
            group_of.update({key: group for key, one in group_of.items() if id(one) in merged})
    groups = {id(group): group for group in group_of.values()}
    return [[items[at] for at in sorted(group)] for group in groups.values()]


async def in_parallel(
    items: Sequence[T],
    keys: Callable[[T], Collection[Hashable]],
    most: int,
    act: Callable[[list[T]], Awaitable[R]],
) -> list[R]:
    """Call `act` with at most `most` items at a time, in parallel for items that share no key and
    one after the other for the others. Returns the result of each call."""

    async def in_order(part: list[T]) -> list[R]:
        return [await act(part[at : at + most]) for at in range(0, len(part), most)]

    done = await asyncio.gather(*(in_order(part) for part in partition(items, keys, most)))
    return [result for results in done for result in results]
