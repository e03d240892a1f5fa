"""Ids of jobs in order."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Generic, TypeVar

from mita.model.time import Moment

K = TypeVar("K", tuple[int, int, str], tuple[int, int, int, str])


class SortedIds(Generic[K]):
    """Sorted keys, each of which ends in a job's id. They are plain lists: moving a few thousand
    pointers costs microseconds."""

    def __init__(self) -> None:
        self._keys: list[K] = []

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        """The ids in order. Changes during the iteration are not seen by it."""
        return iter([str(key[-1]) for key in self._keys])

    @property
    def first(self) -> K | None:
        """The first key, or None."""
        return self._keys[0] if self._keys else None

    def add(self, key: K) -> None:
        """Add a key."""
        insort(self._keys, key)

    def remove(self, key: K) -> None:
        """Remove a key, which must be there."""
        at = bisect_left(self._keys, key)
        assert self._keys[at] == key, f"{key} is not among these keys"  # noqa: S101
        del self._keys[at]

    def until(self, moment: Moment) -> list[str]:
        """The ids whose key begins with `moment` or an earlier point in time."""
        ids = []
        for key in self._keys:
            if key[0] > moment:
                break
            ids.append(str(key[-1]))
        return ids
