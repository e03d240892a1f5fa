"""Limits and rates as JSON."""

from typing import Any

from mita.model.gate import StoredLimit
from mita.rules.display import ONE_SECOND_US


def seconds_between_starts(interval_us: int) -> float | None:
    """The time between two starts of a rate; None for no rate."""
    return interval_us / ONE_SECOND_US or None


def limit_data(limit: StoredLimit | None) -> dict[str, Any] | None:
    """A stored limit as a document, for `--json`; None for no limit."""
    if limit is None:
        return None
    return {
        "concurrency": limit.concurrency,
        "seconds_between_starts": seconds_between_starts(limit.interval_us),
        "burst": limit.burst if limit.interval_us else None,
    }
