"""Time, as the whole code writes it down: whole milliseconds.

A `Moment` is a point on the store's clock, a `Wait` a length. Callers send waits, or moments that a
person named; only a store turns a wait into a moment, so two clocks never meet in one comparison.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

LATEST = 253_402_300_799_999  # the last millisecond of the year 9999: no calendar goes further
# What is read from a store is checked against these bounds. Code that makes a moment or a length is
# not.
Moment: TypeAlias = Annotated[int, Meta(ge=0, le=LATEST)]
Wait: TypeAlias = Annotated[int, Meta(ge=-LATEST, le=LATEST)]

SECOND: Wait = 1000
MINUTE: Wait = 60 * SECOND
HOUR: Wait = 60 * MINUTE
DAY: Wait = 24 * HOUR
LONGEST: Wait = 100 * 366 * DAY  # further ahead is a mistake in the unit


class When(Struct, frozen=True):
    """From which moment something holds: `wait` after the store's now, or at the moment `at`. A
    past moment means now."""

    wait: Wait = 0
    at: Moment | None = None

    def moment(self, now: Moment) -> Moment:
        """The moment this means on a store whose clock shows `now`."""
        return now + self.wait if self.at is None else max(now, self.at)

    def is_fixed(self, now: Moment) -> bool:
        """Whether somebody named the moment and it is still ahead. It stays as it is when the clock
        is corrected."""
        return self.at is not None and self.at > now


NOW = When()
