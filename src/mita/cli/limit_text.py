"""Limits and rates as text and as JSON."""

from typing import Any

from mita.model.gate import StoredLimit
from mita.rules.display import ONE_SECOND_US, rate_text


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


def limit_data(limit: StoredLimit | None) -> dict[str, Any] | None:
    if limit is None:
        return None
    return {
        "concurrency": limit.concurrency,
        "seconds_between_starts": seconds_between_starts(limit.interval_us),
        "burst": limit.burst if limit.interval_us else None,
    }
