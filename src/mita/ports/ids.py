"""Job ids: UUIDs of version 7 in 32 hexadecimal digits. They sort by the time of their making."""

import os
import time

_VARIANT = "89ab"


def new_ids(n: int) -> list[str]:
    """`n` fresh ids, in order: every engine keeps an index of them, and one that grows at its end is the cheapest. They
    count up from a random number, which comes from the system, so forked processes never share it."""
    chance = os.urandom(10)
    head = f"{time.time_ns() // 1_000_000:012x}7{chance.hex()[:3]}{_VARIANT[chance[9] & 3]}"
    first = int.from_bytes(chance[2:9])  # 14 digits of the last 15, so that counting up does not run out of them
    return [f"{head}{number:015x}" for number in range(first, first + n)]


def new_id() -> str:
    return new_ids(1)[0]
