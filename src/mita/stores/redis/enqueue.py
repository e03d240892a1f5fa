"""Taking jobs in."""

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import groupby
from typing import Any

from msgspec import Struct

from mita.model.job import NewJob, Receipt

from .codec import is_plain, meta, packed
from .context import Room, parts
from .link import Doubt

SLICE = 500  # jobs that are taken in by one script


def enqueue_parts(room: Room, some: list[Sequence[NewJob]]) -> Coroutine[Any, Any, list[Receipt]]:
    """Jobs in parts of which each fits into one call; nearly always that is one."""
    return enqueue(room, some[0]) if len(some) == 1 else _one_by_one(room, some)


async def _one_by_one(room: Room, some: list[Sequence[NewJob]]) -> list[Receipt]:
    return [receipt for part in some for receipt in await enqueue(room, part)]


def enqueue(room: Room, jobs: Sequence[NewJob]) -> Coroutine[Any, Any, list[Receipt]]:
    """A lone job has one coroutine between its caller and the link."""
    if room.cluster:
        return _over_nodes(room, jobs)
    if len(jobs) <= SLICE:
        return _take_in(room, _ask(room, jobs))
    return _take_in_slices(room, jobs)


async def _take_in_slices(room: Room, jobs: Sequence[NewJob]) -> list[Receipt]:
    """One behind the other on one connection, so in their order: while the server takes in some,
    the next are packed. None is under way any more when this is over."""
    under_way: list[asyncio.Future[list[Receipt]]] = []
    try:
        for part in parts(jobs, SLICE):
            under_way.append(asyncio.ensure_future(_take_in(room, _ask(room, part))))
            await asyncio.sleep(0)  # it takes its first step,
            await asyncio.sleep(0)  # and what it wrote leaves the buffers of the event loop
        await asyncio.gather(*under_way, return_exceptions=True)
    finally:
        for one in under_way:
            one.cancel()  # it has ended by now, unless nobody waits for it any more
    return [receipt for taken in under_way for receipt in taken.result()]


class _Ask(Struct, frozen=True, gc=False):
    """Jobs, and what the script is told of them: the roots of their queues, kinds and items as
    `lua/include/intake.lua` reads them (no kinds when all are plain), and whether all are fresh."""

    jobs: Sequence[NewJob]
    roots: list[str]
    kinds: list[Any]
    items: list[Any]
    fresh: bool


async def _take_in(room: Room, ask: _Ask) -> list[Receipt]:
    jobs, kinds, doubt = ask.jobs, ask.kinds, Doubt()
    if not jobs:
        return []
    said = await room.link.run(
        "enqueue",
        ask.roots,
        room.now(),
        room.keys.bell,
        "" if room.cluster else room.keys.shared,
        *room.number(),
        "1" if ask.fresh else "",
        len(kinds),
        *kinds,
        *ask.items,
        doubt=doubt,
    )
    receipts = [Receipt(job.id) for job in jobs]
    if said == 0:
        return receipts
    refused, new = said
    if new and room.cluster:
        room.known -= {job.queue for job in jobs}
        await room.register({job.queue for job in jobs})
    for position, there in zip(refused[::2], refused[1::2], strict=True):
        id = there.decode("utf-8", "backslashreplace")
        # After a cut connection, the job that is there is most likely the one this very call made.
        receipts[position - 1] = Receipt(
            id, created=doubt.justified and id == jobs[position - 1].id
        )
    return receipts


def _ask(room: Room, jobs: Sequence[NewJob]) -> _Ask:
    if len(jobs) == 1:  # the same as below, without the lists
        [job] = jobs
        kind = meta(job, 1)
        return _Ask(
            jobs,
            [room.keys.queue(job.queue)],
            [1, kind] if kind else [],
            [job.id, packed(job)],
            job.fresh,
        )
    queues = list(dict.fromkeys([job.queue for job in jobs]))
    kinds: list[Any] = []
    if len(queues) > 1 or not all(map(is_plain, jobs)):
        numbers = {queue: number for number, queue in enumerate(queues, 1)}
        metas = [meta(job, numbers[job.queue]) for job in jobs]
        kinds = [part for kind, alike in groupby(metas) for part in (len(list(alike)), kind)]
    items: list[Any] = [None] * (2 * len(jobs))
    items[::2] = [job.id for job in jobs]
    items[1::2] = map(packed, jobs)
    return _Ask(
        jobs, list(map(room.keys.queue, queues)), kinds, items, all(job.fresh for job in jobs)
    )


def one_by_one(room: Room, jobs: Sequence[NewJob]) -> tuple[list[str], list[Any]]:
    """The roots of the queues, and the jobs as `lua/fire.lua` reads them."""
    ask = _ask(room, jobs)
    kinds, items = ask.kinds or [len(jobs), b""], ask.items
    metas = [kind for many, kind in zip(kinds[::2], kinds[1::2], strict=True) for _ in range(many)]
    return ask.roots, [
        part for row in zip(metas, items[::2], items[1::2], strict=True) for part in row
    ]


async def _elsewhere(room: Room, jobs: Sequence[NewJob]) -> dict[str, tuple[str, Any]]:
    """Where jobs are whose ids may be those of others, unless all queues there are take part in the
    call itself."""
    if not jobs:
        return {}
    queues, named = set(await room.queues()), {job.queue for job in jobs}
    return (
        await room.by_id("where", [job.id for job in jobs])
        if queues - named or len(named) > 1
        else {}
    )


async def _over_nodes(room: Room, jobs: Sequence[NewJob]) -> list[Receipt]:
    """On a cluster one call reaches one queue, and an id that another queue has must be found
    before."""
    elsewhere = await _elsewhere(room, [job for job in jobs if not job.fresh])
    receipts: dict[int, Receipt] = {}
    by_queue: dict[str, list[int]] = {}
    for position, job in enumerate(jobs):
        if elsewhere.get(job.id, (job.queue,))[0] != job.queue:
            receipts[position] = Receipt(job.id, created=False)
        else:
            by_queue.setdefault(job.queue, []).append(position)
    await room.register(by_queue)
    for positions in by_queue.values():
        for part in parts(positions):
            made = await _take_in(room, _ask(room, [jobs[position] for position in part]))
            receipts.update(zip(part, made, strict=True))
    return [receipts[position] for position in range(len(jobs))]
