"""Keeping the place in order."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from mita.model.job import State
from mita.model.time import MINUTE, Moment, Wait, When
from mita.model.view import WorkerView
from mita.rules.states import TERMINAL

from . import indexes, resources, schema
from .codec import Presence, Record, pack
from .context import Context, Line
from .job_records import ROLLUP, TTL, seconds
from .messages import Out
from .reading import read_record
from .reads import Found
from .removal import remove
from .sweep import give_up
from .tx import Tx, transact

# how long a paused queue's consumers deliver nothing: longer than `walk.BELIEVED`, by far
STOPPED: Wait = MINUTE
# homes that a prune looks at, at the least: the server itself forgets what has expired, in time
LOOK_AT = 2000


async def pause(context: Context, queues: Sequence[str]) -> None:
    """A claim that begins after this reads in the queue's record that it is paused. One that has
    read the record before may still ask the consumers for jobs. So these are stopped for as long as
    such a claim may last: what is enqueued from now on is not delivered to it. A crash between the
    two: claims that begin later know, and nobody was told of a pause."""

    async def act(tx: Tx) -> list[Line]:
        records = [await indexes.queue_of(tx, queue) for queue in dict.fromkeys(queues)]
        for record in records:
            if record.paused is None:
                indexes.put_queue(tx, replace(record, paused=tx.now))
        return [(record.name, priority) for record in records for priority in record.priorities]

    lines = await transact(context, act)
    await _stop(context, lines, context.clock.now() + STOPPED)
    records = [
        await indexes.queue_of(Tx(context), queue) for queue in {queue for queue, _ in lines}
    ]
    # by another, before the consumers were stopped
    resumed = {record.name for record in records if record.paused is None}
    await _stop(context, [line for line in lines if line[0] in resumed], None)


async def resume(context: Context, queues: Sequence[str]) -> None:
    """A crash between the two steps: the server lets the consumers go on by itself when `STOPPED`
    is over."""

    async def act(tx: Tx) -> list[Line]:
        records = [await indexes.queue_of(tx, queue) for queue in dict.fromkeys(queues)]
        paused = [record for record in records if record.paused is not None]
        for record in paused:
            indexes.put_queue(tx, replace(record, paused=None))
        return [(record.name, priority) for record in paused for priority in record.priorities]

    lines = await transact(context, act)
    await _stop(context, lines, None)
    if lines:
        context.ring({queue for queue, _ in lines})


async def _stop(context: Context, lines: Sequence[Line], until: Moment | None) -> None:
    await asyncio.gather(
        *(schema.stop_line(context, queue, priority, until) for queue, priority in lines)
    )


async def hold(context: Context, queues: Sequence[str], key: str, until: When) -> None:
    for queue in queues:
        await transact(
            context,
            lambda tx, queue=queue: resources.hold(tx, queue, key, until.moment(tx.now)),  # type: ignore[misc]
        )


async def beat(context: Context, worker: WorkerView, keep: Wait) -> Moment:
    """Tells that a worker lives, and looks at the server's clock on the way."""
    await context.clock.refresh()
    now = context.clock.now()
    presence = Presence(replace(worker, seen=now), now + keep)
    await context.wire.store(
        [Out(context.subjects.worker(worker.id), pack(presence), ROLLUP + TTL % seconds(keep))]
    )
    return now


async def leave(context: Context, worker: str) -> None:
    await context.wire.store([Out(context.subjects.worker(worker), b"", ROLLUP + TTL % 1)])


async def prune(context: Context, limit: int, most: int) -> int:
    """What has expired, the oldest first; then what a queue keeps of succeeded jobs beyond the
    newest `most`.

    Homes come in the order in which they were written, so of ended jobs the oldest come first. What
    is met before the first of them (scheduled jobs, most of all) is not looked at again: whatever
    becomes of it is written further on."""
    ended = await _ended(context, limit, most)
    now = context.clock.now()
    expired = [one for one in ended if one[0].expires is not None and one[0].expires <= now]
    expired.sort(key=lambda one: (one[0].expires or 0, one[0].age))
    going = expired[:limit]
    succeeded: dict[str, list[tuple[Record, Found]]] = {}
    for record, home in ended:
        if record.state is State.SUCCEEDED and (record.expires is None or record.expires > now):
            succeeded.setdefault(record.queue, []).append((record, home))
    for queue in sorted(succeeded):
        done = sorted(succeeded[queue], key=lambda one: (one[0].finished or 0, one[0].age))
        surplus = done[: max(0, len(done) - most)]
        going += surplus[: limit - len(going)]
    return await remove(context, [home.seq for _, home in going])


async def _ended(context: Context, limit: int, most: int) -> list[tuple[Record, Found]]:
    """The oldest homes of jobs that have ended: so many that a surplus shows, if there can be
    one."""
    ended: list[tuple[Record, Found]] = []
    start, looked_at, left = context.nothing_ended_before, 0, 1
    while left and (
        looked_at < LOOK_AT or (ended and looked_at < most + limit and looked_at + left > most)
    ):
        homes, left = await context.reader.slice(context.subjects.homes(), start, LOOK_AT)
        records = [(read_record(home.body, home.subject), home) for home in homes]
        ended += [
            (record, home)
            for record, home in records
            if not record.gone and record.state in TERMINAL
        ]
        await give_up(context, [record for record, _ in records])
        looked_at += len(homes)
        start = homes[-1].seq + 1 if homes else start
        if not ended:
            context.nothing_ended_before = start
    return ended
