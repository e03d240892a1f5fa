"""What is kept of each attempt that failed: the error, cut, in the line that the timeline has of
it.

The timeline keeps `TIMELINE_LINES` lines of a job, so `MOST_FAILURE_BYTES` for each error limits
what all of them take."""

import re

from .text import shortened

MOST_FAILURE_BYTES = 1500  # of one error; the 50 lines of a timeline keep 75 KB at most

TRACE = '\n  File "'  # what the first line of a traceback begins with

_TYPE = re.compile(r"[\w.<>]+")


def failure(error: str) -> str:
    """Returns an error as its timeline line keeps it."""
    return shortened(error, MOST_FAILURE_BYTES)


def head(error: str) -> str:
    """Returns the type and message, which may have several lines: everything before the traceback,
    whose source lines may contain the names of other errors."""
    return error.partition(TRACE)[0]


def type_of(error: str) -> str:
    """Returns the error's type with its module, as the first line of its text has it; a built-in
    type has no module."""
    found = _TYPE.match(error)
    return found[0] if found else ""
