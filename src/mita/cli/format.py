"""Times, counts and errors as text for people; `mita.rules.words` has them."""

from mita.rules.words import (
    bar,
    brief,
    clock,
    counted,
    first_line,
    length,
    per_second,
    progress,
    relative,
    sparkline,
    when,
)

__all__ = [
    "bar",
    "brief",
    "clock",
    "counted",
    "first_line",
    "length",
    "per_second",
    "progress",
    "relative",
    "sparkline",
    "when",
]
