"""Ids of jobs and workers. A job's id is a UUID of version 7 in 32 hexadecimal digits; ids sort by
the time when they were made."""

import os
import time

# formatting a whole id takes four times as long
_LAST = [f"{number:03x}" for number in range(4096)]
_COUNTER_BITS = 28  # bits
_BLOCK_BITS = 12  # bits of them that are in `_LAST`


def new_id() -> str:
    """Return a new id. Its random digits come from the system, so that forked processes never share
    them."""
    chance = os.urandom(9).hex()
    return f"{time.time_ns() // 1_000_000:012x}7{chance[:3]}8{chance[3:]}"


def new_ids(n: int) -> list[str]:
    """Return `n` new ids, in order: stores have an index on ids, and appending to an index is
    cheapest."""
    return [new_id()] if n == 1 else _counted(n)


def _counted(n: int) -> list[str]:
    """Count up from a random number right after the time, so that 21 digits are enough to tell the
    ids of one call apart. All of them share the random digits at the end."""
    id = new_id()
    time_of_making, tail = id[:12], id[21:]
    first = int(id[13:16] + id[17:21], 16) % ((1 << _COUNTER_BITS) - n)
    ids: list[str] = []
    for block in range(first >> _BLOCK_BITS, (first + n - 1 >> _BLOCK_BITS) + 1):
        begun = f"{time_of_making}7{block >> 4:03x}8{block & 15:x}"
        start = max(0, first - (block << _BLOCK_BITS))
        ids += [begun + last + tail for last in _LAST[start : first + n - (block << _BLOCK_BITS)]]
    return ids


def incarnation(name: str) -> str:
    """Return the id of one start of a worker or scheduler with this name."""
    return f"{name}#{os.urandom(4).hex()}"
