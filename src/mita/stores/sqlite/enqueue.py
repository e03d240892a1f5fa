"""Enqueuing jobs."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import msgspec

from mita.model.job import NewJob, Receipt
from mita.model.time import NOW
from mita.stores.shared import room

from . import unique
from .codec import shared_values
from .context import SqliteContext, as_json

ALIKE_JOBS = 8  # so many neighbours with shared values are worth a statement of their own

_read_ids = msgspec.json.Decoder(list[str]).decode


def enqueue(context: SqliteContext, jobs: Sequence[NewJob]) -> list[Receipt]:
    """Store jobs. A job whose id exists, or whose unique key is taken, is not stored: its receipt
    names the existing job."""
    if not jobs:
        return []
    if max([len(job.payload) for job in jobs]) > context.room - room.HEADERS_BYTES:
        room.check(jobs, context.room)
    ids, known = [job.id for job in jobs], set[str]()
    # Ids sort by time, so mostly no id exists from the first of these on.
    if context.value("enqueue_any_since", id=min(ids)):
        known.update(_read_ids(context.value("enqueue_known_ids", ids=as_json(ids))))
    receipts, new = [], []
    for job in jobs:
        if job.id in known:
            existing: str | None = job.id
        else:
            existing = None if job.unique is None else unique.take_or_holder(context, job)
        receipts.append(Receipt(existing or job.id, existing is None))
        if existing is None:
            known.add(job.id)
            new.append(job)
    queues = {job.queue for job in new}
    context.run_many("queues_add", [(queue,) for queue in queues])
    _insert(context, new)
    context.topics |= queues
    return receipts


def _insert(context: SqliteContext, jobs: list[NewJob]) -> None:
    """Insert jobs in their order, which is their age."""
    now = context.now
    single: list[tuple[Any, ...]] = []
    for (values, fixed), alike in groupby(
        jobs, lambda job: (shared_values(job), job.when is not NOW and job.when.is_fixed(now))
    ):
        shared = (*values, now, fixed)
        rows = [
            (job.id, now if job.when is NOW else job.when.moment(now), job.payload) for job in alike
        ]
        if len(rows) < ALIKE_JOBS:
            single += [shared + row for row in rows]
            continue
        context.run_many("enqueue_insert", single)
        single = []
        context.run_many("enqueue_insert_alike", rows, shared)
    context.run_many("enqueue_insert", single)
