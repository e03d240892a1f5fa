"""A scale of time on which long quiet stretches are cut out, and said to be."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

_LEAST_CUT_S = 3600  # shorter stretches are always drawn to scale
_CUT_RATIO = 8  # and so are those that are not so many times longer than all busy time
_CUT_SHARE = 0.12  # of the width, for each stretch that is cut


class Stretch(Struct, frozen=True):
    """A part of the scale: from one time to another, and where it begins and ends, as shares of the
    width. `is_cut`: it is shorter than its time."""

    start: datetime
    end: datetime
    left: float
    right: float
    is_cut: bool = False


class BrokenScale:
    """Places times between 0 and 1. `quiet` are stretches in which nothing happened; those that
    would leave no room for the rest are cut to a fixed width, all other time is to scale."""

    def __init__(
        self, start: datetime, end: datetime, quiet: Sequence[tuple[datetime, datetime]]
    ) -> None:
        self.start, self.end = start, max(end, start + timedelta(milliseconds=1))
        cuts = _cuts(self.start, self.end, quiet)
        self.stretches = _stretches(self.start, self.end, cuts)

    @property
    def cuts(self) -> list[Stretch]:
        """The stretches that are not to scale."""
        return [one for one in self.stretches if one.is_cut]

    def at(self, time: datetime) -> float:
        """Where a time is: 0 at the start, 1 at the end, and never outside."""
        for one in self.stretches:
            if time <= one.end:
                share = (time - one.start) / (one.end - one.start)
                return one.left + max(share, 0.0) * (one.right - one.left)
        return 1.0


def _cuts(
    start: datetime, end: datetime, quiet: Sequence[tuple[datetime, datetime]]
) -> list[tuple[datetime, datetime]]:
    """The quiet stretches that are many times longer than all the time in which something
    happened."""
    long = [one for one in quiet if (one[1] - one[0]).total_seconds() >= _LEAST_CUT_S]
    busy = end - start - sum((b - a for a, b in long), timedelta())
    return sorted(one for one in long if busy and one[1] - one[0] > _CUT_RATIO * busy)


def _stretches(
    start: datetime, end: datetime, cuts: Sequence[tuple[datetime, datetime]]
) -> list[Stretch]:
    cut_share = min(_CUT_SHARE, 0.5 / max(len(cuts), 1))
    drawn = end - start - sum((b - a for a, b in cuts), timedelta())
    room = 1 - cut_share * len(cuts)
    found: list[Stretch] = []
    at, left = start, 0.0
    for first, last in [*cuts, (end, end)]:
        if first > at:
            right = left + room * ((first - at) / drawn)
            found.append(Stretch(at, first, left, right))
            left = right
        if last > first:
            found.append(Stretch(first, last, left, left + cut_share, is_cut=True))
            left += cut_share
        at = last
    return found
