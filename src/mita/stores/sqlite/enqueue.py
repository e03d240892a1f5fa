"""Enqueuing jobs."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from mita.model.job import NewJob, Receipt, State
from mita.model.outcome import TimelineKind
from mita.model.time import NOW, Moment
from mita.rules.twins import TwinAct, act_on_twin, debounced_due
from mita.stores.shared import room

from . import unique
from .codec import alike, bound_values, limit_values
from .context import SqliteContext, as_json

ALIKE_JOBS = 8  # so many neighbours with shared values are worth a statement of their own


class _Insert(NamedTuple):
    """The statements that insert jobs: each with all of its values, and neighbours that share some
    of them."""

    single: str
    alike: str


PLAIN = _Insert("enqueue_insert", "enqueue_insert_alike")
LIMITED = _Insert("enqueue_insert_limited", "enqueue_insert_limited_alike")

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
    receipts, new, inserted = [], list[NewJob](), 0
    for job in jobs:
        if job.id in known:
            existing: str | None = job.id
        else:
            existing = None if job.unique is None else unique.take_or_holder(context, job)
            if existing is not None and job.debounce:
                context.run_many("queues_add", [(one.queue,) for one in new[inserted:]])
                _insert(context, new[inserted:])  # the job may be one of these
                inserted = len(new)
                existing = _debounce(context, job, existing)
        receipts.append(Receipt(existing or job.id, existing is None))
        if existing is None:
            known.add(job.id)
            new.append(job)
    queues = {job.queue for job in new}
    context.run_many("queues_add", [(queue,) for queue in queues])
    _insert(context, new[inserted:])
    context.topics |= queues
    return receipts


def _debounce(context: SqliteContext, new: NewJob, twin: str) -> str | None:
    """Act on the job that has the unique key. Returns its id if it stands for the new job, which is
    not stored then."""
    found = context.row("enqueue_twin", id=twin)
    act = TwinAct.KEEP if found is None else act_on_twin(new, State(found[1]))
    if act is TwinAct.REPLACE:
        unique.take(context, new.queue, new.unique, new.id, new.throttle)
        return None
    if act is TwinAct.MOVE:
        seq, _, created = found
        context.note(seq, TimelineKind.DEBOUNCED, "")
        context.run(
            "enqueue_move_twin",
            seq=seq,
            due=debounced_due(new, created, context.now),
            payload=new.payload,
            options=new.options,
            headers=new.headers,
        )
        if new.tags:
            context.run_many("enqueue_tags", [(tag, twin) for tag in new.tags])
        context.topics.add(new.queue)
    return twin


def _insert(context: SqliteContext, jobs: list[NewJob]) -> None:
    """Insert jobs in their order, which is their age."""
    now, kind, are_plain = context.now, PLAIN, True
    single: list[tuple[Any, ...]] = []
    for ((values, has_limits), fixed), neighbours in groupby(
        jobs, lambda job: (alike(job), job.when is not NOW and job.when.is_fixed(now))
    ):
        if has_limits is (kind is PLAIN):
            context.run_many(kind.single, single)
            single, kind, are_plain = [], LIMITED if has_limits else PLAIN, False
        shared = (*bound_values(values), now, fixed)
        rows = (_limited_rows if has_limits else _rows)(neighbours, now)
        if len(rows) < ALIKE_JOBS:
            single += [shared + row for row in rows]
            continue
        context.run_many(kind.single, single)
        single = []
        context.run_many(kind.alike, rows, shared)
    context.run_many(kind.single, single)
    if not are_plain:
        _insert_rest(context, jobs)


def _insert_rest(context: SqliteContext, jobs: list[NewJob]) -> None:
    """Insert what other tables have of jobs with limits or tags."""
    if with_groups := {job.queue for job in jobs if job.fair is not None}:
        context.run("enqueue_groups", queues=as_json(with_groups))
    if tags := [(tag, job.id) for job in jobs for tag in job.tags]:
        context.run_many("enqueue_tags", tags)


def _rows(jobs: Iterable[NewJob], now: Moment) -> list[tuple[Any, ...]]:
    return [(job.id, now if job.when is NOW else job.when.moment(now), job.payload) for job in jobs]


def _limited_rows(jobs: Iterable[NewJob], now: Moment) -> list[tuple[Any, ...]]:
    return [(job.id, job.when.moment(now), job.payload, *limit_values(job)) for job in jobs]
