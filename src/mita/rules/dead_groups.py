"""Groups of failed jobs: how stores count them.

A store counts what is together in it: the failed jobs of one group in one queue, or a single job.
`merged` makes one `StoredGroup` of all parts of a group."""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from mita.model.job import Job
from mita.model.time import HOUR, Moment
from mita.model.view import StoredGroup

SHOWN_HOURS = 24
NO_FAILURES = (0,) * SHOWN_HOURS


class GroupPart(Struct, frozen=True):
    """Some failed jobs of one group, as a `StoredGroup` describes them. `of` is private to the
    store: what it finds them by."""

    group: str
    count: int
    first: Moment
    last: Moment
    sample: str
    hours: Sequence[int] = NO_FAILURES
    of: Any = None


def hour_starts(now: Moment) -> list[Moment]:
    """When each of the last 24 hours began, the oldest first. A job that failed after one of these
    moments, and not after the next, belongs to that hour."""
    return [now - hours * HOUR for hours in range(SHOWN_HOURS, 0, -1)]


def counted(jobs: Iterable[Job], now: Moment) -> list[GroupPart]:
    """One part for each group of these failed jobs, for a store that reads them all."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.group or "", []).append(job)
    return [_part(group, jobs, now) for group, jobs in groups.items()]


def _part(group: str, jobs: list[Job], now: Moment) -> GroupPart:
    ends = [job.finished or 0 for job in jobs]
    hours = [0] * SHOWN_HOURS
    for end in ends:
        ago = max(0, now - end) // HOUR
        if ago < SHOWN_HOURS:
            hours[SHOWN_HOURS - 1 - ago] += 1
    newest = max(jobs, key=lambda job: (job.finished or 0, job.id))
    return GroupPart(group, len(jobs), min(ends), max(ends), newest.id, hours)


def largest(parts: Sequence[GroupPart], limit: int) -> list[GroupPart]:
    """The parts of the first `limit` groups, in the order of `merged`. A store may count the hours
    of these alone."""
    chosen = {one.group for one in _in_order(parts)[:limit]}
    return [part for part in parts if part.group in chosen]


def merged(parts: Iterable[GroupPart], limit: int) -> list[StoredGroup]:
    """The groups that these parts belong to, up to `limit`: those with the most jobs first, then
    those that failed last."""
    return [
        StoredGroup(
            group=one.group,
            count=one.count,
            first=one.first,
            last=one.last,
            sample=one.sample,
            hours=tuple(one.hours),
        )
        for one in _in_order(parts)[:limit]
    ]


def _in_order(parts: Iterable[GroupPart]) -> list[GroupPart]:
    groups: dict[str, GroupPart] = {}
    for part in parts:
        other = groups.get(part.group)
        groups[part.group] = part if other is None else _both(other, part)
    return sorted(groups.values(), key=lambda one: (-one.count, -one.last, one.group))


def _both(one: GroupPart, other: GroupPart) -> GroupPart:
    newest = max(one, other, key=lambda part: part.last)
    return GroupPart(
        one.group,
        one.count + other.count,
        min(one.first, other.first),
        newest.last,
        newest.sample,
        [some + more for some, more in zip(one.hours, other.hours, strict=True)],
    )
