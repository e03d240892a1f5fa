"""Rows and values of statements, to and from the model."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import astuple

from mita.model.job import Claim, NewJob, WhenBusy
from mita.model.outcome import TimelineEntry
from mita.model.repeat import Repeat
from mita.rules.readable import BAD, read_repeat

from .context import Row
from .server.arrays import blobs, numbers, storable, texts

# --------------------------------------------------------------------------------------------- jobs


def is_plain(job: NewJob) -> bool:
    """Whether a job has no keys and no repeat, and is due now or after a delay."""
    return (
        job.resource is None
        and job.unique is None
        and job.repeat is None
        and job.when.at is None
        and job.fire_time is None
        and job.limit == 1
        and job.unique_for == 0
        and job.when_busy is WhenBusy.WAIT
    )


def plain_columns(jobs: list[NewJob]) -> dict[str, Any]:
    """The columns of plain jobs, one array each."""
    return {
        "ids": texts([job.id for job in jobs]),
        "tasks": texts([job.task for job in jobs]),
        "queues": texts([job.queue for job in jobs]),
        "priorities": numbers([job.priority for job in jobs]),
        "waits": numbers([job.when.wait for job in jobs]),
        "payloads": blobs([job.payload for job in jobs]),
        "options": blobs([job.options for job in jobs]),
        "headers": blobs([job.headers for job in jobs]),
    }


def columns(jobs: list[NewJob]) -> dict[str, Any]:
    """All columns of jobs but the unique key, one array each."""
    return plain_columns(jobs) | {
        "ats": numbers([job.when.at for job in jobs]),
        "resources": texts([job.resource for job in jobs]),
        "mosts": numbers([job.limit for job in jobs]),
        "whens_busy": texts([job.when_busy.value for job in jobs]),
        "unique_fors": numbers([job.unique_for for job in jobs]),
        "repeats": texts([job.repeat for job in jobs]),
        "fire_times": numbers([job.fire_time for job in jobs]),
    }


def claims(rows: Iterable[Row]) -> list[Claim]:
    """The claims in these rows, whose columns are the fields of `Claim` in their order."""
    return [Claim(*row) for row in rows]


# ------------------------------------------------------------------------------------------ repeats


def repeat_values(repeat: Repeat) -> dict[str, Any]:
    """The columns of a repeat."""
    return {
        "key": repeat.key,
        "spec": repeat.spec,
        "cursor": repeat.cursor,
        "state": repeat.state.value,
        "reason": storable(repeat.reason),
        "revision": repeat.revision,
        "count": repeat.count,
        "last": repeat.last,
    }


def as_repeat(row: Row) -> Repeat:
    """The repeat in a row, whose columns are the fields of `Repeat` in their order."""
    return read_repeat(dict(zip(Repeat.__struct_fields__, row, strict=True)))


# ----------------------------------------------------------------------------------------- timeline


class _TimelineArray(TimelineEntry, array_like=True, frozen=True):
    """A line of a timeline as it is stored: a JSON array. Only the line of a failed run has the
    last two items."""


_read_line = msgspec.json.Decoder(_TimelineArray).decode


def timeline_entry(line: Any) -> TimelineEntry:
    """The entry in a stored line. A line that cannot be read becomes an entry that says so."""
    try:
        return TimelineEntry(*astuple(_read_line(line)))
    except BAD as error:
        return TimelineEntry(0, "unreadable", f"this line cannot be read: {error}")
