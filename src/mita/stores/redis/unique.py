"""Jobs that are not stored because their id or their unique key is taken.

`lua/include/unique_keys.lua` keeps the unique keys of a queue. An id must be unique in all queues;
on a cluster that cannot be checked inside the script, so `queues_of_ids` does it before."""

from collections.abc import Sequence
from typing import Any

from mita.model.job import NewJob, Receipt

from .context import RedisContext


def receipts(jobs: Sequence[NewJob], refused: Sequence[Any], sent_twice: bool) -> list[Receipt]:
    """One receipt for each job. `refused` is a flat list of positions (from 1), each followed by
    the id of the job that is there instead."""
    made = [Receipt(job.id) for job in jobs]
    for position, there in zip(refused[::2], refused[1::2], strict=True):
        id = there.decode("utf-8", "backslashreplace")
        # If the call was sent twice, a job of this id was most likely made by the first one.
        created = sent_twice and id == jobs[position - 1].id
        made[position - 1] = Receipt(id, created=created)
    return made


async def queues_of_ids(context: RedisContext, jobs: Sequence[NewJob]) -> dict[str, str]:
    """The queues that already have a job with one of these ids, by id. Ids that were made for this
    call (`NewJob.fresh`) are not looked up, nor is a queue that is the only one."""
    known = [job for job in jobs if not job.fresh]
    named = {job.queue for job in known}
    if not known or (len(named) == 1 and not set(await context.queues()) - named):
        return {}
    found = await context.by_id("enqueue_find_ids", [job.id for job in known])
    return {id: queue for id, (queue, _) in found.items()}
