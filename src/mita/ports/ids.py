"""Job ids: UUIDs of version 7 in 32 hexadecimal digits. They sort by the time of their making."""

import os
import time

_VARIANT = "89ab"


def new_ids(n: int) -> list[str]:
    """`n` fresh ids, in order: every engine keeps an index of them, and one that grows at its end is the cheapest. The
    random part comes from the system, so forked processes never share it."""
    head = f"{time.time_ns() // 1_000_000:012x}7"
    chance = os.urandom(10 * n).hex()
    return sorted(
        f"{head}{chance[i : i + 3]}{_VARIANT[int(chance[i + 3], 16) & 3]}{chance[i + 4 : i + 19]}"
        for i in range(0, 20 * n, 20)
    )


def new_id() -> str:
    return new_ids(1)[0]
