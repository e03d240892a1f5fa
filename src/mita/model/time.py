"""Time, in whole milliseconds everywhere.

A `Moment` is a point in time on the store's clock; a `Wait` is a duration. Callers send durations,
or points in time that a person named. Only a store turns a duration into a point in time, so two
clocks are never compared."""

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

LATEST = 253_402_300_799_999  # the last millisecond of the year 9999: no calendar goes further
# Values from a store are checked against these bounds; values that code makes are not.
Moment: TypeAlias = Annotated[int, Meta(ge=0, le=LATEST)]
Wait: TypeAlias = Annotated[int, Meta(ge=-LATEST, le=LATEST)]

SECOND: Wait = 1000
MINUTE: Wait = 60 * SECOND
HOUR: Wait = 60 * MINUTE
DAY: Wait = 24 * HOUR
LONGEST: Wait = 100 * 366 * DAY  # further ahead is a mistake in the unit


class When(Struct, frozen=True):
    """When something starts: `wait` after the store's current time, or at the point in time `at`. A
    time in the past means now."""

    wait: Wait = 0
    at: Moment | None = None

    def moment(self, now: Moment) -> Moment:
        """The point in time on a store whose clock shows `now`."""
        return now + self.wait if self.at is None else max(now, self.at)

    def is_fixed(self, now: Moment) -> bool:
        """Whether a person named the point in time and it is still in the future. It does not
        change when the clock is corrected."""
        return self.at is not None and self.at > now


NOW = When()
