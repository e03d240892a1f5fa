"""From the 201 priorities of Django to the ten of Mita.

Each of ten levels has a priority of its own, so its order is exact. A priority between two levels
goes with the lower one: it never starts before a higher one because of this, but it is not told
apart from its level."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from mita.model.job import PRIORITIES

DJANGO_PRIORITIES = range(-100, 101)
# 0 has the priority 5, which is Mita's own default
DEFAULT_LEVELS = (-100, -50, -20, -10, -1, 0, 1, 10, 50, 100)


def check_levels(given: Any) -> tuple[int, ...]:
    """Return the levels of a backend, lowest first. Raises `ImproperlyConfigured` for wrong
    ones."""
    try:
        levels = tuple(sorted(set(given)))
    except TypeError:
        levels = ()
    right = all(type(one) is int and one in DJANGO_PRIORITIES for one in levels)
    if not levels or not right or len(levels) > len(PRIORITIES):
        raise ImproperlyConfigured(
            f"PRIORITIES={given!r}: list the priorities that your tasks use, at most "
            f"{len(PRIORITIES)} whole numbers from {DJANGO_PRIORITIES[0]} to "
            f"{DJANGO_PRIORITIES[-1]}"
        )
    return levels


def mita_priority(levels: Sequence[int], priority: int) -> int:
    """The priority in Mita of a priority in Django."""
    at = max(0, bisect_right(levels, priority) - 1)
    return at if len(levels) == len(PRIORITIES) else at + (len(PRIORITIES) - len(levels)) // 2


def share_a_level(levels: Sequence[int], used: Iterable[int]) -> list[tuple[int, ...]]:
    """The groups of different priorities that are not told apart."""
    groups: dict[int, set[int]] = {}
    for priority in used:
        groups.setdefault(mita_priority(levels, priority), set()).add(priority)
    return [tuple(sorted(group)) for _, group in sorted(groups.items()) if len(group) > 1]
