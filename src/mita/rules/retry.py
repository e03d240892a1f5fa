"""How long to wait before trying again.

A job that failed waits as its `Retry` says. The engine and the stores wait for a store that is
unreachable with the same growing pauses."""

from mita.model.policy import Retry
from mita.model.time import SECOND, Wait


def exponential(first: float, longest: float, failures: int, factor: float = 2.0) -> float:
    """Returns the pause after `failures` earlier failures: `first`, then `factor` times as long
    each time, at most `longest`."""
    # 60 doublings are past any limit, and the power cannot overflow
    return min(first * factor ** min(failures, 60), longest)


def ceiling(retry: Retry, n: int) -> float:
    """The longest wait before retry `n` (1, 2, 3 …), in seconds, before jitter."""
    if retry.waits:
        return retry.waits[min(n, len(retry.waits)) - 1]
    return exponential(retry.base, retry.cap, n - 1)


def backoff(retry: Retry, n: int, roll: float) -> Wait:
    """The wait before retry `n`, for a `roll` of chance between 0 and 1."""
    if retry.waits:
        return round(ceiling(retry, n) * SECOND)
    top = ceiling(retry, n)
    match retry.jitter:
        case "full":
            seconds = top * roll
        case "equal":
            seconds = top * (1 + roll) / 2
        case "decorrelated":
            spread = min(retry.base * 3.0 ** min(n, 40), retry.cap)
            seconds = min(retry.base, retry.cap) + max(spread - retry.base, 0.0) * roll
        case "none":
            seconds = top
    return round(seconds * SECOND)
