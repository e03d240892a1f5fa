"""Stored rules that make jobs."""

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from mita.model.job import NewJob
from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.rules.readable import BAD

from .codec import as_repeat
from .context import MOST, Room, parts
from .enqueue import enqueue, one_by_one

log = logging.getLogger("mita.store")

LATE = 5000  # ms after which a parcel is somebody else's to deliver
_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[NewJob]).decode


async def put(room: Room, repeat: Repeat) -> Repeat:
    row = await room.shared(
        "put_repeat",
        repeat.key,
        repeat.spec,
        _or_empty(repeat.cursor),
        repeat.state.value,
        repeat.reason,
        repeat.revision,
        repeat.count,
        _or_empty(repeat.last),
        room.keys.bell,
    )
    return as_repeat(row)


def _or_empty(moment: int | None) -> int | str:
    return "" if moment is None else moment


async def remove(room: Room, keys: Sequence[str]) -> list[bool]:
    return [
        bool(said)
        for said in await room.shared("remove_repeats", room.keys.bell, *keys, again=False)
    ]


async def switch(room: Room, keys: Sequence[str], old: RepeatState, new: RepeatState) -> list[bool]:
    answers = await room.shared(
        "switch_repeats", room.keys.bell, old.value, new.value, *keys, again=False
    )
    return [bool(said) for said in answers]


async def due(room: Room, limit: int) -> DueRepeats:
    now, rows, following = await room.shared("due_repeats", room.now(), min(limit, MOST))
    return DueRepeats(now, [as_repeat(row) for row in rows], following)


async def find(room: Room, keys: Sequence[str]) -> list[Repeat | None]:
    rows = [row for part in parts(keys) for row in await room.shared("find_repeats", *part)]
    return [None if row is None else as_repeat(row) for row in rows]


async def everything(room: Room) -> list[Repeat]:
    found: dict[str, Repeat] = {}
    cursor: Any = "0"
    while True:
        cursor, rows = await room.shared("list_repeats", cursor)
        found.update((repeat.key, repeat) for repeat in map(as_repeat, rows))
        if cursor == b"0":
            return [found[key] for key in sorted(found)]


async def fire(room: Room, firings: Sequence[Firing]) -> list[bool]:
    """Many in one call, as far as their jobs fit in it; on a cluster their jobs live elsewhere, and
    they go one by one."""
    if room.cluster:
        return [await _fire_alone(room, firing) for firing in firings]
    won: list[bool] = []
    together: list[Firing] = []
    jobs = 0
    for firing in firings:
        if together and (jobs + len(firing.jobs) > MOST or len(together) == MOST):
            won += await _fire_together(room, together)
            together, jobs = [], 0
        together.append(firing)
        jobs += len(firing.jobs)
    return won + (await _fire_together(room, together) if together else [])


async def _fire_together(room: Room, firings: Sequence[Firing]) -> list[bool]:
    roots, args = one_by_one(room, [job for firing in firings for job in firing.jobs])
    return await _compare_and_set(
        room, [(firing, b"", len(firing.jobs)) for firing in firings], roots, args
    )


async def _fire_alone(room: Room, firing: Firing) -> bool:
    """The act leaves the jobs as a parcel beside the repeat, and they are made next, under ids that
    are settled already.

    If this process dies before that, the next sweep of any worker makes them, some seconds late. If
    it dies between making them and throwing the parcel away, they are made again, which changes
    nothing unless such a job has ended and been forgotten meanwhile: then it runs a second time.
    """
    [won] = await _compare_and_set(
        room, [(firing, _pack(firing.jobs) if firing.jobs else b"", 0)], [], []
    )
    if won and firing.jobs:
        await enqueue(room, firing.jobs)
        await room.shared("delivered", f"{firing.key} {firing.cursor}")
    return won


async def deliver(room: Room) -> None:
    """Make the jobs that somebody promised and has not made."""
    found = await room.shared("parcels", room.now(), LATE)
    for name, parcel in zip(found[::2], found[1::2], strict=True):
        try:
            jobs = _unpack(parcel)
        except BAD as error:  # it stays where it is, and is not looked at again
            log.error("the jobs of a firing cannot be read and are not made: %s: %s", name, error)
            await room.link.command("ZREM", f"{room.keys.shared}:promised", name)
            continue
        await enqueue(room, jobs)
        await room.shared("delivered", name)


async def _compare_and_set(
    room: Room, firings: Sequence[tuple[Firing, bytes, int]], roots: list[str], jobs: list[Any]
) -> list[bool]:
    """Each with its parcel, and how many of the jobs are its own."""
    args: list[Any] = []
    for firing, parcel, own in firings:
        args += (
            firing.key,
            firing.cursor,
            firing.revision,
            _or_empty(firing.next),
            firing.fired,
            _or_empty(firing.last),
            firing.state.value,
            firing.reason,
            parcel,
            own,
        )
    keys = [room.keys.shared, *roots]
    said = await room.link.run("fire", keys, room.now(), room.keys.bell, len(firings), *args, *jobs)
    return [bool(one) for one in said]
