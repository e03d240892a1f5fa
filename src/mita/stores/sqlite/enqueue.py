"""Taking jobs in."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import msgspec

from mita.model.job import NewJob, Receipt
from mita.stores.shared import room

from . import connection
from .context import Tx, as_json

_from_json = msgspec.json.Decoder(list[str]).decode


ALIKE = 8  # neighbours that are worth a statement of their own


def enqueue(tx: Tx, jobs: Sequence[NewJob]) -> list[Receipt]:
    if not jobs:
        return []
    room.check(jobs, connection.room(tx.connection))
    known = _known(tx, [job.id for job in jobs])
    receipts, new = [], []
    for job in jobs:
        twin = job.id if job.id in known else None if job.unique is None else _twin(tx, job)
        receipts.append(Receipt(twin or job.id, twin is None))
        if twin is None:
            known.add(job.id)
            new.append(job)
    queues = {job.queue for job in new}
    tx.run("know_queues", names=as_json(queues))
    _insert(tx, new)
    tx.topics |= queues
    return receipts


def _known(tx: Tx, ids: list[str]) -> set[str]:
    """Which of these are there already. Ids sort by time, so mostly there is none at all from the
    first of them on."""
    if not tx.one("any_since", id=min(ids)):
        return set()
    return set(_from_json(tx.one("known_ids", ids=as_json(ids))))


def _twin(tx: Tx, job: NewJob) -> str | None:
    """The job that already has the unique key; otherwise the key is this job's from now on."""
    holder = tx.row("unique_holder", queue=job.queue, key=job.unique, now=tx.now)
    if holder is not None:
        return str(holder[0])
    tx.run("unique_take", queue=job.queue, key=job.unique, id=job.id)
    return None


def _insert(tx: Tx, jobs: list[NewJob]) -> None:
    """In their order: it is their age."""
    single: list[tuple[Any, ...]] = []
    for shared, alike in groupby(jobs, lambda job: _shared(tx, job)):
        rows = [(job.id, job.when.moment(tx.now), job.payload) for job in alike]
        if len(rows) < ALIKE:
            single += [shared + row for row in rows]
            continue
        tx.run_over("insert", single)
        single = []
        tx.run_over("insert_alike", rows, shared)
    tx.run_over("insert", single)


def _shared(tx: Tx, job: NewJob) -> tuple[Any, ...]:
    """What neighbours mostly have in common."""
    return (
        job.task,
        job.queue,
        job.priority,
        tx.now,
        job.options,
        job.headers,
        job.resource,
        job.limit,
        job.when_busy.value,
        job.unique,
        job.unique_for,
        job.repeat,
        job.fire_time,
        job.when.is_fixed(tx.now),
    )
