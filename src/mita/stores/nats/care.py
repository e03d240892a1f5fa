"""Keeping the place in order."""

from collections.abc import Sequence

from msgspec.structs import replace

from mita.model.job import State
from mita.model.time import Moment, Wait, When
from mita.model.view import WorkerView
from mita.rules.states import TERMINAL

from . import indexes, waiters
from .context import Context
from .homes import ROLLUP, TTL, seconds
from .messages import Out
from .reads import Found
from .records import Presence, Record, pack, read_record
from .removal import remove
from .sweep import give_up
from .tx import Tx, transact

LOOK_AT = 2000  # homes that a prune looks at, at the least: the server itself forgets what has expired, in time


async def pause(context: Context, queues: Sequence[str]) -> None:
    async def act(tx: Tx) -> None:
        for queue in queues:
            record = await indexes.queue_of(tx, queue)
            if record.paused is None:
                indexes.put_queue(tx, replace(record, paused=tx.now))

    await transact(context, act)


async def resume(context: Context, queues: Sequence[str]) -> None:
    async def act(tx: Tx) -> None:
        for queue in queues:
            record = await indexes.queue_of(tx, queue)
            if record.paused is not None:
                indexes.put_queue(tx, replace(record, paused=None))
                tx.rings.add(queue)

    await transact(context, act)


async def hold(context: Context, queues: Sequence[str], key: str, until: When) -> None:
    for queue in queues:
        await transact(context, lambda tx, queue=queue: waiters.hold(tx, queue, key, until.moment(tx.now)))  # type: ignore[misc]


async def beat(context: Context, worker: WorkerView, keep: Wait) -> Moment:
    """Tells that a worker lives, and looks at the server's clock on the way."""
    await context.clock.refresh()
    now = context.clock.now()
    presence = Presence(replace(worker, seen=now), now + keep)
    await context.wire.store([Out(context.subjects.worker(worker.id), pack(presence), ROLLUP + TTL % seconds(keep))])
    return now


async def leave(context: Context, worker: str) -> None:
    await context.wire.store([Out(context.subjects.worker(worker), b"", ROLLUP + TTL % 1)])


async def prune(context: Context, limit: int, most: int) -> int:
    """What has expired, the oldest first; then what a queue keeps of succeeded jobs beyond the newest `most`.

    Homes come in the order in which they were written, so of ended jobs the oldest come first. What is met before the first
    of them (scheduled jobs, most of all) is not looked at again: whatever becomes of it is written further on."""
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
    """The oldest homes of jobs that have ended: so many that a surplus shows, if there can be one."""
    ended: list[tuple[Record, Found]] = []
    start, looked_at, left = context.nothing_ended_before, 0, 1
    while left and (looked_at < LOOK_AT or (ended and looked_at < most + limit and looked_at + left > most)):
        homes, left = await context.reader.slice(context.subjects.homes(), start, LOOK_AT)
        records = [(read_record(home.body), home) for home in homes]
        ended += [(record, home) for record, home in records if not record.gone and record.state in TERMINAL]
        await give_up(context, [record for record, _ in records])
        looked_at += len(homes)
        start = homes[-1].seq + 1 if homes else start
        if not ended:
            context.nothing_ended_before = start
    return ended
