"""Job ids: UUIDs of version 7 in 32 hexadecimal digits. They sort by the time of their making."""

import os
import time

_VARIANT = "89ab"
_LAST = (1 << 60) - 1  # in the last 15 digits


def new_ids(n: int) -> list[str]:
    """`n` fresh ids, in order: every engine keeps an index of them, and one that grows at its end is the cheapest. They
    count up from a random number, which comes from the system, so forked processes never share it."""
    chance = int.from_bytes(os.urandom(10))
    head = f"{time.time_ns() // 1_000_000:012x}7{chance >> 64 & 0xFFF:03x}{_VARIANT[chance >> 62 & 3]}"
    first = chance & _LAST >> 1
    return [f"{head}{number:015x}" for number in range(first, first + n)]


def new_id() -> str:
    return new_ids(1)[0]
