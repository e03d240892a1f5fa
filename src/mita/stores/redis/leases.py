"""Keeping claims, inheriting those of lost workers, and what a run may write down while it holds
its job."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from mita.model.job import Claim
from mita.model.outcome import Held, Progress
from mita.model.time import Wait
from mita.ports.store import OnceValue
from mita.rules.readable import BAD, unreadable
from mita.stores.shared.views import as_name

from . import aside
from .codec import AGE, ID, first_claim, later_claim
from .context import MOST, Room, parts


async def extend(room: Room, claims: Sequence[Claim], lease: Wait) -> list[Held]:
    said: dict[int, Held] = {}
    for queue, positions in _by_queue(claims).items():
        for some in parts(positions):
            args = [
                part for position in some for part in (claims[position].id, claims[position].token)
            ]
            answers = await room.in_queue("extend", queue, room.now(), lease, *args)
            said.update(zip(some, (Held(answer.decode()) for answer in answers), strict=True))
    return [said[position] for position in range(len(claims))]


def _by_queue(claims: Sequence[Claim]) -> dict[str, list[int]]:
    positions: dict[str, list[int]] = {}
    for position, claim in enumerate(claims):
        positions.setdefault(claim.queue, []).append(position)
    return positions


async def reap(room: Room, limit: int, lease: Wait, worker: str) -> list[Claim]:
    queues = await room.places()
    await room.in_each("mend", queues, room.now(), room.keys.bell)
    heirs: list[Claim] = []
    # Others may sweep at the same time and be faster: then look again, until nothing is left or
    # enough is found.
    while len(heirs) < limit and (
        lost := await over(room, "lease", queues, min(limit - len(heirs), MOST))
    ):
        heirs += await _inherit(room, lost, lease, worker)
    return heirs


async def _inherit(
    room: Room, lost: list[tuple[str, bytes]], lease: Wait, worker: str
) -> list[Claim]:
    by_queue: dict[str, list[bytes]] = {}
    for queue, place in lost:
        by_queue.setdefault(queue, []).append(place)
    heirs: dict[bytes, Claim] = {}
    for queue, places in by_queue.items():
        now, rows = await room.in_queue("inherit", queue, room.now(), lease, worker, *places)
        for place, row in zip(places, rows, strict=True):
            if row is not None:
                try:
                    heir = later_claim(first_claim(row[0], queue, now), row[1], row[2])
                except BAD as error:
                    await aside.set_aside(room, queue, [(place[ID], place, unreadable(str(error)))])
                    continue
                heirs[place] = replace(heir, lost=as_name(row[3]) or None)
    return [heirs[place] for _, place in lost if place in heirs]


async def over(room: Room, what: str, queues: Sequence[str], limit: int) -> list[tuple[str, bytes]]:
    """Whose time is over, in all these queues: the longest first, then the oldest."""
    found: list[tuple[int, bytes, str, bytes]] = []
    for queue, (_, rows) in zip(
        queues, await room.in_each("expired", queues, room.now(), what, limit), strict=True
    ):
        found += [
            (int(moment), place[AGE], queue, place)
            for place, moment in zip(rows[::2], rows[1::2], strict=True)
        ]
    return [(queue, place) for _, _, queue, place in sorted(found)[:limit]]


async def progress(room: Room, reports: Sequence[Progress]) -> list[bool]:
    said: dict[int, bool] = {}
    for queue, positions in _by_queue([report.claim for report in reports]).items():
        for part in parts(positions):
            args: list[Any] = []
            for position in part:
                report = reports[position]
                args += (report.claim.id, report.claim.token, report.report)
            answers = await room.in_queue("progress", queue, *args)
            said.update(zip(part, map(bool, answers), strict=True))
    return [said[position] for position in range(len(reports))]


async def load_once(room: Room, claim: Claim, name: str, shared: bool) -> bytes | None:
    found: bytes | None
    if shared:
        found = await room.shared("shared", room.now(), name)
    else:
        found = await room.in_queue("load_once", claim.queue, claim.id, name)
    return found


async def store_once(room: Room, memo: OnceValue) -> bytes | None:
    claim, stands = memo.claim, None
    if memo.keep is None:
        stands = await room.in_queue(
            "store_once", claim.queue, claim.id, claim.token, "+" + memo.name, memo.value
        )
        return None if stands is None else bytes(stands)
    roots = [room.keys.shared, room.keys.queue(claim.queue)]
    # two nodes: whether the token holds is asked first, and may have changed when the memo is
    # written
    if room.cluster:
        if await room.in_queue("store_once", claim.queue, claim.id, claim.token, "", "") is None:
            return None
        roots.pop()
    stands = await room.link.run(
        "share", roots, room.now(), memo.name, memo.value, memo.keep, claim.id, claim.token
    )
    return None if stands is None else bytes(stands)
