"""Unique keys: which job has one, and giving them out."""

from mita.model.job import NewJob

from .context import Query, query
from .server.arrays import texts


def take(jobs: list[NewJob]) -> Query:
    """Give unique keys to these jobs. If several jobs of a batch have the same key, the first gets
    it. Sorted, so that two batches with the same keys cannot deadlock."""
    first = {(job.queue, job.unique or ""): job.id for job in reversed(jobs)}
    keys = sorted(first)
    return query(
        "unique_take",
        queues=texts([queue for queue, _ in keys]),
        keys=texts([key for _, key in keys]),
        ids=texts([first[key] for key in keys]),
    )


def holders(jobs: list[NewJob]) -> Query:
    """Which jobs have the unique keys of these jobs."""
    return query(
        "unique_holders",
        queues=texts([job.queue for job in jobs]),
        keys=texts([job.unique for job in jobs]),
    )
