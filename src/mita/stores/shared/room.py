"""Whether jobs fit into the store that they are enqueued in."""

from collections.abc import Sequence

from mita.model.job import NewJob
from mita.rules.fitting import check_room

HEADERS = 64_000  # bytes that a job has beside its arguments at most, unless it is looked at
OVERHEAD = 16  # bytes that a job takes in a call beside its arguments and headers, at least


def check(jobs: Sequence[NewJob], room: int | None, remedy: str = "") -> None:
    """Before anything is stored: a job that is taken in can also be claimed and put down."""
    if room is None or not jobs or max([len(job.payload) for job in jobs]) + HEADERS <= room:
        return
    for job in jobs:
        check_room(job.task, len(job.payload) + len(job.headers), room, remedy)


def parts(jobs: Sequence[NewJob], room: int | None) -> list[Sequence[NewJob]]:
    """Jobs that are too much for one call, in as many as it takes."""
    if room is None or sum([len(job.payload) for job in jobs]) + HEADERS * len(jobs) <= room:
        return [jobs]
    check(jobs, room)
    made: list[Sequence[NewJob]] = []
    start = taken = 0
    for at, job in enumerate(jobs):
        size = len(job.payload) + len(job.headers) + OVERHEAD
        if at > start and taken + size > room:
            made.append(jobs[start:at])
            start, taken = at, 0
        taken += size
    return [*made, jobs[start:]]
