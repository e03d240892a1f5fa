"""Storing new jobs."""

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from mita.model.job import NewJob, Receipt
from mita.stores.shared import room as rooms

from .codec import (
    are_plain,
    is_plain,
    job_kind,
    pack_new_job,
    pack_plain_job,
    pack_plain_jobs,
)
from .connection import MaybeDone
from .context import RedisContext, parts
from .unique import queues_of_ids, receipts

ENQUEUE_JOBS = 500  # the most jobs that one script stores


def enqueue(context: RedisContext, jobs: Sequence[NewJob]) -> Coroutine[Any, Any, list[Receipt]]:
    """Store jobs, in several calls if they are too large for one. Returns a coroutine of their
    receipts. Raises `UsageError` for a job that is too large by itself."""
    some = rooms.parts(jobs, context.job_bytes)
    return insert(context, jobs) if len(some) == 1 else _insert_parts(context, some)


async def _insert_parts(context: RedisContext, some: Sequence[Sequence[NewJob]]) -> list[Receipt]:
    return [receipt for part in some for receipt in await insert(context, part)]


def insert(context: RedisContext, jobs: Sequence[NewJob]) -> Coroutine[Any, Any, list[Receipt]]:
    """Store jobs without a look at their size. For a single job no other coroutine stands between
    the caller and the connection."""
    if context.cluster:
        return _insert_on_cluster(context, jobs)
    if len(jobs) <= ENQUEUE_JOBS:
        return _send(context, _enqueue_call(context, jobs))
    return _insert_many(context, jobs)


async def _insert_many(context: RedisContext, jobs: Sequence[NewJob]) -> list[Receipt]:
    """Several calls on one connection, which keeps their order. The next part is packed while the
    server stores the one before. When this returns or raises, no call is under way."""
    calls: list[asyncio.Future[list[Receipt]]] = []
    try:
        for part in parts(jobs, ENQUEUE_JOBS):
            calls.append(asyncio.ensure_future(_send(context, _enqueue_call(context, part))))
            await asyncio.sleep(0)  # the call is started,
            await asyncio.sleep(0)  # and the event loop writes it to the socket
        await asyncio.gather(*calls, return_exceptions=True)
    finally:
        for call in calls:
            call.cancel()  # it has ended by now, unless this was cancelled
    return [receipt for call in calls for receipt in call.result()]


class _EnqueueCall(Struct, frozen=True, gc=False):
    """The arguments of one call: the roots of the queues, kinds and items as
    `lua/include/insert_jobs.lua` reads them (no kinds when all jobs are plain), and whether all ids
    are fresh."""

    jobs: Sequence[NewJob]
    roots: list[str]
    kinds: list[Any]
    items: list[Any]
    fresh: bool


async def _send(context: RedisContext, call: _EnqueueCall) -> list[Receipt]:
    jobs, kinds, maybe_done = call.jobs, call.kinds, MaybeDone()
    if not jobs:
        return []
    answer = await context.connection.run(
        "enqueue",
        call.roots,
        context.now(),
        context.keys.notify_channel,
        "" if context.cluster else context.keys.shared,
        *context.call_number(),
        "1" if call.fresh else "",
        len(kinds),
        *kinds,
        *call.items,
        maybe_done=maybe_done,
    )
    if answer == 0:  # all are stored, and no queue is new
        return [Receipt(job.id) for job in jobs]
    refused, new = answer
    if new and context.cluster:
        context.known_queues -= {job.queue for job in jobs}
        await context.register({job.queue for job in jobs})
    return receipts(jobs, refused, maybe_done.sent_twice)


def _enqueue_call(context: RedisContext, jobs: Sequence[NewJob]) -> _EnqueueCall:
    if len(jobs) == 1:  # the same as below, without the lists
        [job] = jobs
        roots = [context.keys.queue(job.queue)]
        if is_plain(job):
            return _EnqueueCall(jobs, roots, [], [job.id, pack_plain_job(job)], job.fresh)
        kinds: list[Any] = [1, job_kind(job, 1)]
        return _EnqueueCall(jobs, roots, kinds, [job.id, pack_new_job(job)], job.fresh)
    queues = list(dict.fromkeys([job.queue for job in jobs]))
    kinds, packed = [], None
    if are_plain(jobs):
        packed = pack_plain_jobs(jobs)
    if packed is None or len(queues) > 1:
        numbers = {queue: number for number, queue in enumerate(queues, 1)}
        each = [job_kind(job, numbers[job.queue]) for job in jobs]
        kinds = [part for kind, alike in groupby(each) for part in (len(list(alike)), kind)]
    items: list[Any] = [None] * (2 * len(jobs))
    items[::2] = [job.id for job in jobs]
    items[1::2] = packed or map(pack_new_job, jobs)
    roots = list(map(context.keys.queue, queues))
    fresh = [job.fresh for job in jobs]
    return _EnqueueCall(jobs, roots, kinds, items, all(fresh))


def fire_args(context: RedisContext, jobs: Sequence[NewJob]) -> tuple[list[str], list[Any]]:
    """The roots of the queues, and the jobs as `lua/fire.lua` reads them: kind, id and packed job
    of each, one after the other. (`enqueue.lua` takes the kinds apart, as pairs of how many jobs
    and their kind.)"""
    call = _enqueue_call(context, jobs)
    kinds, items = call.kinds or [len(jobs), b""], call.items
    each = [kind for many, kind in zip(kinds[::2], kinds[1::2], strict=True) for _ in range(many)]
    rows = zip(each, items[::2], items[1::2], strict=True)
    return call.roots, [part for row in rows for part in row]


async def _insert_on_cluster(context: RedisContext, jobs: Sequence[NewJob]) -> list[Receipt]:
    """On a cluster one call reaches one queue, and ids of other queues are looked up before."""
    queues = await queues_of_ids(context, jobs)
    made: dict[int, Receipt] = {}
    by_queue: dict[str, list[int]] = {}
    for position, job in enumerate(jobs):
        if queues.get(job.id, job.queue) != job.queue:
            made[position] = Receipt(job.id, created=False)
        else:
            by_queue.setdefault(job.queue, []).append(position)
    await context.register(by_queue)
    for positions in by_queue.values():
        for part in parts(positions):
            some = [jobs[position] for position in part]
            sent = await _send(context, _enqueue_call(context, some))
            made.update(zip(part, sent, strict=True))
    return [made[position] for position in range(len(jobs))]
