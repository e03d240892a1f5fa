"""Counts of values by size, as Prometheus wants them."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

SECONDS_BOUNDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    1800.0,
)
# for what may take seconds or days
DAYS_BOUNDS = (
    0.1,
    0.5,
    1.0,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    1800.0,
    3600.0,
    21_600.0,
    86_400.0,
    604_800.0,
)
SIZE_BOUNDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
FEW_VALUES = 10  # that are not worth sorting


class Histogram:
    """Counts values up to each bound, and their sum. The last bucket is for values beyond every
    bound."""

    __slots__ = ("bounds", "buckets", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS_BOUNDS) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add_all(self, values: list[float]) -> None:
        """Count many values. They are sorted first, which needs one search per bound instead of one
        per value."""
        if len(values) < FEW_VALUES:
            for value in values:
                self.add(value)
            return
        values = sorted(values)
        below, last = 0, bisect_left(self.bounds, values[-1])
        for at in range(bisect_left(self.bounds, values[0]), last):
            upto = bisect_right(values, self.bounds[at], below)
            self.buckets[at] += upto - below
            below = upto
        self.buckets[last] += len(values) - below
        self.total += sum(values)

    def merge(self, other: "Histogram") -> None:
        """Add the counts of another histogram."""
        self.buckets = [
            mine + theirs for mine, theirs in zip(self.buckets, other.buckets, strict=True)
        ]
        self.total += other.total
