"""Whether jobs fit into the store that they are enqueued in."""

from collections.abc import Sequence

from mita.errors import UsageError
from mita.model.job import NewJob


def check_room(jobs: Sequence[NewJob], room: int | None, remedy: str = "") -> None:
    """Before anything is stored: a job that is taken in can also be claimed and put down. `remedy` is what can be done at
    the server."""
    if room is None or not jobs:
        return
    if max([len(job.payload) + len(job.headers) for job in jobs]) <= room:
        return
    largest = max(jobs, key=lambda job: len(job.payload) + len(job.headers))
    size = len(largest.payload) + len(largest.headers)
    raise UsageError(
        f"task {largest.task!r}: the arguments take {size:,} bytes, and this store has room for {room:,} in one job; "
        f"store the data elsewhere and pass its name{', or ' if remedy else ''}{remedy}"
    )
