"""How long to wait before trying again."""

from mita.model.policy import Retry
from mita.model.time import SECOND, Wait


def ceiling(retry: Retry, n: int) -> float:
    """The longest wait before retry `n` (1, 2, 3 …), in seconds, before jitter."""
    if retry.waits:
        return retry.waits[min(n, len(retry.waits)) - 1]
    grown = retry.base * 2.0 ** min(n - 1, 60)  # 2^60 is past any cap, and cannot overflow
    return min(grown, retry.cap)


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
