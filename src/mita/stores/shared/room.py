"""Whether jobs fit into the store that they are enqueued in."""

from collections.abc import Sequence

from mita.model.job import NewJob
from mita.rules.fitting import check_room

OVERHEAD = 16  # bytes that a job takes in a call beside its arguments and headers, at least


def check(jobs: Sequence[NewJob], room: int | None, remedy: str = "") -> int:
    """Before anything is stored: a job that is taken in can also be claimed and put down. Gives what they take together."""
    if room is None or not jobs:
        return 0
    sizes = [len(job.payload) + len(job.headers) + OVERHEAD for job in jobs]
    if max(sizes) > room:
        for job in jobs:
            check_room(job.task, len(job.payload) + len(job.headers), room, remedy)
    return sum(sizes)


def parts(jobs: Sequence[NewJob], room: int | None) -> list[Sequence[NewJob]]:
    """Jobs that are too much for one call, in as many as it takes."""
    if room is None or check(jobs, room) <= room:
        return [jobs]
    made: list[Sequence[NewJob]] = []
    start = taken = 0
    for at, job in enumerate(jobs):
        size = len(job.payload) + len(job.headers) + OVERHEAD
        if at > start and taken + size > room:
            made.append(jobs[start:at])
            start, taken = at, 0
        taken += size
    return [*made, jobs[start:]]
