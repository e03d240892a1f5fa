"""Taking jobs in."""

from collections.abc import Iterable, Sequence
from typing import Any

from mita.model.job import NewJob, Receipt, WhenBusy

from .arrays import blobs, numbers, texts
from .steps import Act, Ask, Row, Step, Steps, ask


def enqueue(act: Act, jobs: Sequence[NewJob], *, last: bool = True) -> Steps[list[Receipt]]:
    """`last`: the transaction ends here; a firing and a user's transaction go on."""
    # of one id in a batch, the first
    fresh = list({job.id: job for job in reversed(jobs)}.values())[::-1]
    keyed = [job for job in fresh if job.unique is not None]
    queues = {job.queue for job in fresh}
    asks = [_insert(fresh)]
    if keyed:
        asks = [
            _unique_take(keyed),
            *asks,
            _unique_holders(keyed),
            ask("known_ids", ids=texts([job.id for job in keyed])),
        ]
    if not queues <= act.queues:
        asks.append(
            ask(
                "know_queues_here" if act.yours else "know_queues",
                ids=texts([job.id for job in fresh]),
            )
        )
    answers = yield Step(*asks, last=last)
    if act.yours:
        [(act.transaction,)] = answers[-1]
    if keyed:
        return _receipts(act, jobs, answers[1], answers[2], answers[3])
    return _receipts(act, jobs, answers[0], (), ())


def _receipts(
    act: Act,
    jobs: Sequence[NewJob],
    taken: Iterable[Row],
    holders: Iterable[Row],
    known: Iterable[Row],
) -> list[Receipt]:
    created = {id for (id,) in taken}
    holder = {(queue, key): id for queue, key, id in holders}
    present = {id for (id,) in known}
    receipts = []
    for job in jobs:
        if job.id in created:
            created.discard(job.id)
            act.topics.add(job.queue)
            receipts.append(Receipt(job.id))
        elif job.unique is None or job.id in present:
            receipts.append(Receipt(job.id, created=False))
        else:
            receipts.append(Receipt(holder.get((job.queue, job.unique), job.id), created=False))
    return receipts


def _unique_take(jobs: list[NewJob]) -> Ask:
    """The first of the batch for each key. Sorted, so that two batches with the same keys never
    wait in a ring."""
    first = {(job.queue, job.unique or ""): job.id for job in reversed(jobs)}
    keys = sorted(first)
    return ask(
        "unique_take",
        queues=texts([queue for queue, _ in keys]),
        keys=texts([key for _, key in keys]),
        ids=texts([first[key] for key in keys]),
    )


def _unique_holders(jobs: list[NewJob]) -> Ask:
    return ask(
        "unique_holders",
        queues=texts([job.queue for job in jobs]),
        keys=texts([job.unique for job in jobs]),
    )


def _insert(jobs: list[NewJob]) -> Ask:
    if all(_is_plain(job) for job in jobs):
        return Ask("insert_plain", _essentials(jobs))
    return ask("insert", **columns(jobs), uniques=texts([job.unique for job in jobs]))


def _essentials(jobs: list[NewJob]) -> dict[str, Any]:
    return {
        "ids": texts([job.id for job in jobs]),
        "tasks": texts([job.task for job in jobs]),
        "queues": texts([job.queue for job in jobs]),
        "priorities": numbers([job.priority for job in jobs]),
        "waits": numbers([job.when.wait for job in jobs]),
        "payloads": blobs([job.payload for job in jobs]),
        "options": blobs([job.options for job in jobs]),
        "headers": blobs([job.headers for job in jobs]),
    }


def columns(jobs: list[NewJob]) -> dict[str, Any]:
    """All of a job but its unique key."""
    return _essentials(jobs) | {
        "ats": numbers([job.when.at for job in jobs]),
        "resources": texts([job.resource for job in jobs]),
        "mosts": numbers([job.limit for job in jobs]),
        "whens_busy": texts([job.when_busy.value for job in jobs]),
        "unique_fors": numbers([job.unique_for for job in jobs]),
        "repeats": texts([job.repeat for job in jobs]),
        "fire_times": numbers([job.fire_time for job in jobs]),
    }


def _is_plain(job: NewJob) -> bool:
    return (
        job.resource is None
        and job.unique is None
        and job.repeat is None
        and job.when.at is None
        and job.fire_time is None
        and job.limit == 1
        and job.unique_for == 0
        and job.when_busy is WhenBusy.WAIT
    )
