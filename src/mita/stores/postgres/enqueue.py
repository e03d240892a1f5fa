"""Enqueuing jobs."""

from collections.abc import Iterable, Sequence

from mita.model.job import NewJob, Receipt

from . import resources, unique
from .codec import Row
from .context import PostgresContext, Query, RoundTrip, RoundTrips, query
from .server.arrays import flags, texts
from .throughput import new_columns


def enqueue(
    context: PostgresContext, jobs: Sequence[NewJob], *, last: bool = True
) -> RoundTrips[list[Receipt]]:
    """Store new jobs and return one receipt for each. Without `last` the transaction goes on."""
    # of jobs with the same id in a batch, the first
    fresh = list({job.id: job for job in reversed(jobs)}.values())[::-1]
    keyed = [job for job in fresh if job.unique is not None]
    if keyed and any(job.debounce or job.throttle for job in keyed):
        return (yield from _with_twins(context, jobs, last=last))
    queries = [*_insert(fresh)]
    if keyed:
        queries = [
            unique.take(keyed),
            queries[0],
            unique.holders(keyed),
            query("enqueue_known_ids", ids=texts([job.id for job in keyed])),
            *queries[1:],
        ]
    if not {job.queue for job in fresh} <= context.known_queues:
        name = "enqueue_in_queues" if context.in_user_transaction else "enqueue_queues"
        queries.append(query(name, ids=texts([job.id for job in fresh])))
    answers = yield RoundTrip(*queries, last=last)
    if context.in_user_transaction:
        [(context.transaction_id,)] = answers[-1]
    if keyed:
        return _receipts(context, jobs, answers[1], answers[2], answers[3])
    return _receipts(context, jobs, answers[0], (), ())


def _with_twins(
    context: PostgresContext, jobs: Sequence[NewJob], *, last: bool
) -> RoundTrips[list[Receipt]]:
    """The same for jobs of which some have `debounce` or `throttle`."""
    batch = unique.TwinBatch(jobs)
    yield from batch.run()
    if not context.in_user_transaction:  # which may stay open for long: it locks no key
        yield from resources.stop_waking(context, batch.left_keys)
    context.topics |= batch.queues
    name = "enqueue_in_queues" if context.in_user_transaction else "enqueue_queues"
    ids = texts([receipt.id for receipt in batch.receipts])
    answers = yield RoundTrip(*limited_queues(jobs), query(name, ids=ids), last=last)
    if context.in_user_transaction:
        [(context.transaction_id,)] = answers[-1]
    context.new_queues |= context.topics
    return batch.receipts


def _insert(jobs: list[NewJob]) -> list[Query]:
    """The statement that stores these jobs, and then what else they need."""
    if new_columns.are_plain(jobs):
        return [Query("enqueue_plain", new_columns.plain_columns(jobs))]
    if new_columns.have_limits(jobs):
        return [Query("enqueue_limited", new_columns.columns(jobs)), *limited_queues(jobs)]
    return [Query("enqueue", new_columns.keyed_columns(jobs))]


def limited_queues(jobs: Sequence[NewJob]) -> list[Query]:
    """Remember which queues have jobs with several keys, rates or groups."""
    found = sorted(
        {(job.queue, job.fair is not None) for job in jobs if job.gates or job.fair is not None}
    )
    if not found:
        return []
    queues, fairs = zip(*found, strict=True)
    return [query("enqueue_limited_queues", queues=texts(queues), fairs=flags(fairs))]


def _receipts(
    context: PostgresContext,
    jobs: Sequence[NewJob],
    inserted: Iterable[Row],
    holders: Iterable[Row],
    known: Iterable[Row],
) -> list[Receipt]:
    created = {id for (id,) in inserted}
    holder = {(queue, key): id for queue, key, id in holders}
    present = {id for (id,) in known}
    receipts = []
    for job in jobs:
        if job.id in created:
            created.discard(job.id)
            context.topics.add(job.queue)
            receipts.append(Receipt(job.id))
        elif job.unique is None or job.id in present:
            receipts.append(Receipt(job.id, created=False))
        else:
            receipts.append(Receipt(holder.get((job.queue, job.unique), job.id), created=False))
    context.new_queues |= context.topics
    return receipts
