"""Whether jobs fit into the store that they are enqueued in."""

from collections.abc import Sequence

from mita.model.job import NewJob
from mita.rules.fitting import check_room

HEADERS_BYTES = 64_000  # of a job at most; with more, each job is measured
OVERHEAD_BYTES = 16  # of a job in a call, beside its arguments and headers, at least


def check(jobs: Sequence[NewJob], room: int | None, remedy: str = "") -> None:
    """Raises `UsageError` if a job is too large for the store: it could be enqueued, but not
    claimed and settled."""
    if room is None or not jobs:
        return
    if max([len(job.payload) + len(job.headers) for job in jobs]) > room:
        for job in jobs:
            check_room(job.task, len(job.payload) + len(job.headers), room, remedy)


def parts(jobs: Sequence[NewJob], room: int | None) -> list[Sequence[NewJob]]:
    """The jobs in parts, each small enough for one call."""
    if room is None or sum([len(job.payload) for job in jobs]) + HEADERS_BYTES * len(jobs) <= room:
        return [jobs]
    check(jobs, room)
    made: list[Sequence[NewJob]] = []
    start = taken = 0
    for at, job in enumerate(jobs):
        size = len(job.payload) + len(job.headers) + OVERHEAD_BYTES
        if at > start and taken + size > room:
            made.append(jobs[start:at])
            start, taken = at, 0
        taken += size
    return [*made, jobs[start:]]
