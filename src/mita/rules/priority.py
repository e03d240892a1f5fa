"""Which numbers are priorities, in the words of errors and helps."""

from typing import Any

from mita.errors import UsageError
from mita.model.job import PRIORITIES

PRIORITY_RANGE = f"{PRIORITIES[0]} to {PRIORITIES[-1]}"


def check_priority(given: Any) -> int:
    """Return a priority that a caller gave. Raises `UsageError` for anything else."""
    if isinstance(given, bool) or not isinstance(given, int) or given not in PRIORITIES:
        raise UsageError(
            f"priority={given!r}: give a whole number from {PRIORITY_RANGE}; higher goes first"
        )
    return given
