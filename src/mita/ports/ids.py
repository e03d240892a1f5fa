"""Ids of jobs and workers. A job's is a UUID of version 7 in 32 hexadecimal digits; these sort by
their time of making."""

import os
import time

# formatting a whole id takes four times as long
_LAST = [f"{number:03x}" for number in range(4096)]
_COUNTER = 28  # bits
_BLOCK = 12  # bits of them that are in `_LAST`


def new_id() -> str:
    """Its random digits come from the system, so that forked processes never share them."""
    chance = os.urandom(9).hex()
    return f"{time.time_ns() // 1_000_000:012x}7{chance[:3]}8{chance[3:]}"


def new_ids(n: int) -> list[str]:
    """`n` fresh ids, in order: every engine keeps an index of them, and one that grows at its end
    is the cheapest."""
    return [new_id()] if n == 1 else _counted(n)


def _counted(n: int) -> list[str]:
    """Up from a random number that stands right behind the time, so that 21 digits tell the ids of
    one call apart. All of them share the random digits after it."""
    id = new_id()
    time_of_making, tail = id[:12], id[21:]
    first = int(id[13:16] + id[17:21], 16) % ((1 << _COUNTER) - n)
    ids: list[str] = []
    for block in range(first >> _BLOCK, (first + n - 1 >> _BLOCK) + 1):
        begun = f"{time_of_making}7{block >> 4:03x}8{block & 15:x}"
        start = max(0, first - (block << _BLOCK))
        ids += [begun + last + tail for last in _LAST[start : first + n - (block << _BLOCK)]]
    return ids


def incarnation(name: str) -> str:
    """The id of a worker or scheduler of this name: a fresh one for every start, and one that
    people can read."""
    return f"{name}#{os.urandom(4).hex()}"
