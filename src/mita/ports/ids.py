"""Job ids: UUIDs of version 7 in 32 hexadecimal digits. They sort by the time of their making."""

import os
import time

_LAST = [f"{number:03x}" for number in range(4096)]  # to be put at the end: formatting a whole id takes four times as long


def new_id() -> str:
    """Its random digits come from the system, so that forked processes never share them."""
    chance = os.urandom(9).hex()
    return f"{time.time_ns() // 1_000_000:012x}7{chance[:3]}8{chance[3:]}"


def new_ids(n: int) -> list[str]:
    """`n` fresh ids, in order: every engine keeps an index of them, and one that grows at its end is the cheapest."""
    return [new_id()] if n == 1 else _counted(n)


def _counted(n: int) -> list[str]:
    """Up from a random number."""
    id = new_id()
    head, first = id[:17], int(id[18:], 16)  # 14 digits of the last 15, so that counting up does not run out of them
    ids: list[str] = []
    for high in range(first >> 12, (first + n - 1 >> 12) + 1):
        begun = f"{head}{high:012x}"
        start = max(0, first - (high << 12))
        ids += [begun + last for last in _LAST[start : first + n - (high << 12)]]
    return ids
