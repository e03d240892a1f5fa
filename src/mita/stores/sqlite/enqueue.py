"""Taking jobs in."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mita.model.job import NewJob, Receipt

from .tx import Tx, as_json

_from_json = msgspec.json.Decoder(list[str]).decode


def enqueue(tx: Tx, jobs: Sequence[NewJob]) -> list[Receipt]:
    known = set(_from_json(tx.one("known_ids", ids=as_json(job.id for job in jobs))))
    receipts, new = [], []
    for job in jobs:
        twin = job.id if job.id in known else _twin(tx, job)
        receipts.append(Receipt(twin or job.id, twin is None))
        if twin is None:
            known.add(job.id)
            new.append(job)
    queues = {job.queue for job in new}
    tx.run("know_queues", names=as_json(queues))
    tx.run_over("insert", [_row(tx, job) for job in new])
    tx.topics |= queues
    return receipts


def _twin(tx: Tx, job: NewJob) -> str | None:
    """The job that already has the unique key; otherwise the key is this job's from now on."""
    if job.unique is None:
        return None
    holder = tx.row("unique_holder", queue=job.queue, key=job.unique, now=tx.now)
    if holder is not None:
        return str(holder[0])
    tx.run("unique_take", queue=job.queue, key=job.unique, id=job.id)
    return None


def _row(tx: Tx, job: NewJob) -> tuple[Any, ...]:
    return (
        job.id,
        job.task,
        job.queue,
        job.priority,
        job.when.moment(tx.now),
        tx.now,
        job.payload,
        job.options,
        job.headers,
        job.resource,
        job.limit,
        job.when_busy.value,
        job.unique,
        job.unique_for,
        job.repeat,
        job.fire_time,
    )
