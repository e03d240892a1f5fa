"""Limits and rates as text and as JSON."""

from typing import Any

from mita.model.gate import StoredLimit
from mita.model.time import SECOND
from mita.rules.display import span

ONE_SECOND_US = 1_000_000


def seconds_between_starts(interval_us: int) -> float | None:
    """The time between two starts of a rate; None for no rate."""
    return interval_us / ONE_SECOND_US or None


def limit_text(limit: StoredLimit | None) -> str:
    """`50 at once, 100/s`; empty for no limit."""
    if limit is None:
        return ""
    parts = [] if limit.concurrency is None else [f"{limit.concurrency} at once"]
    if limit.interval_us:
        parts.append(rate_text(limit.interval_us, limit.burst))
    return ", ".join(parts)


def rate_text(interval_us: int, burst: int) -> str:
    """`100/s`, `1 per 2 m`; with the burst if it is more than 1. Empty for no rate."""
    if not interval_us:
        return ""
    per_second = ONE_SECOND_US / interval_us
    text = (
        f"{per_second:.6g}/s"
        if per_second >= 1
        else f"1 per {span(round(interval_us / ONE_SECOND_US * SECOND))}"
    )
    return text if burst == 1 else f"{text}, {burst} at once"


def limit_data(limit: StoredLimit | None) -> dict[str, Any] | None:
    if limit is None:
        return None
    return {
        "concurrency": limit.concurrency,
        "seconds_between_starts": seconds_between_starts(limit.interval_us),
        "burst": limit.burst if limit.interval_us else None,
    }
