"""Keeping the place in order."""

from collections.abc import Sequence

import msgspec

from mita.model.time import Moment, Wait, When
from mita.model.view import WorkerView

from .codec import moment
from .context import MOST, Room
from .leases import over

_pack = msgspec.msgpack.Encoder().encode


async def pause(room: Room, queues: Sequence[str]) -> None:
    if queues:
        await room.link.command("SADD", room.keys.queues, *queues)
        await room.in_each("pause", queues, room.now())


async def resume(room: Room, queues: Sequence[str]) -> None:
    await room.in_each("resume", queues, room.keys.bell)


async def hold(room: Room, queues: Sequence[str], key: str, until: When) -> None:
    if queues:
        await room.link.command("SADD", room.keys.places, *queues)
    await room.in_each("hold", queues, room.now(), room.keys.bell, key, *moment(until))


async def beat(room: Room, worker: WorkerView, keep: Wait) -> Moment:
    return int(await room.shared("beat", room.now(), worker.id, _pack(worker), keep))


async def leave(room: Room, worker: str) -> None:
    await room.shared("leave", worker)


async def prune(room: Room, limit: int, most: int) -> int:
    """First those whose time is over, wherever they are, then each queue's surplus."""
    queues = await room.queues()
    gone, full = 0, True
    while full and gone < limit:
        slice_ = min(limit - gone, MOST)
        named = await over(room, "expiry", queues, slice_)
        went = 0
        for queue in dict.fromkeys(queue for queue, _ in named):
            handles = [handle for where, handle in named if where == queue]
            went += (await room.in_queue("prune", queue, room.now(), 0, most, *handles))[0]
        gone, full = gone + went, went == slice_
    for queue in queues:
        gone += await _surplus(room, queue, limit - gone, most)
    await room.shared("prune_shared", room.now())
    return gone


async def _surplus(room: Room, queue: str, limit: int, most: int) -> int:
    gone, full = 0, True
    while full:
        slice_ = min(limit - gone, MOST)
        _, went = await room.in_queue("prune", queue, room.now(), slice_, most)
        gone, full = gone + went, 0 < slice_ == went
    return int(gone)
