"""Putting claims down and taking new ones, in one round trip."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

from msgspec.structs import replace

from mita.errors import Rejected
from mita.model.job import Claim, State
from mita.model.outcome import Busy, ClaimResult, Settlement, Verdict
from mita.model.time import Moment, Wait
from mita.rules.readable import BAD
from mita.stores.shared.apart import named, settle_apart, turn_apart
from mita.stores.shared.views import as_name

from . import aside
from .codec import as_job, first_claim, later_claim, verdict
from .context import MOST, Room, parts
from .link import Doubt

_Pasts: TypeAlias = dict[
    int, tuple[bytes, bytes | None]
]  # by position: live half and progress of those not on their first run


async def settle_and_claim(
    room: Room,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
) -> ClaimResult:
    names = list(dict.fromkeys(queues))

    async def claim() -> ClaimResult:
        if room.cluster:
            return await _claim_over_nodes(room, names, limit, lease, worker)
        return await _turn(room, [], names, limit, lease, worker)

    if not room.cluster and len(settlements) <= MOST:
        whole = partial(_turn, room, settlements, names, limit, lease, worker)
        return await turn_apart(whole, partial(_settle, room), claim, settlements)
    took = await settle(room, settlements)
    return replace(await claim(), took=took)


async def settle(room: Room, settlements: Sequence[Settlement]) -> list[bool]:
    """As few calls as it takes: on a cluster one call reaches one queue."""
    took = [True] * len(settlements)
    rejected: dict[int, str] = {}
    for positions in _calls(room, settlements):
        try:
            answers = await settle_apart(
                partial(_settle, room), [settlements[position] for position in positions]
            )
        except Rejected as error:
            answers = error.took
            rejected |= {positions[at]: why for at, why in error.rejected.items()}
        for position, one in zip(positions, answers, strict=True):
            took[position] = one
    if rejected:
        raise named(took, rejected)
    return took


def _calls(room: Room, settlements: Sequence[Settlement]) -> list[Sequence[int]]:
    by_queue: dict[str, list[int]] = {}
    for position, settlement in enumerate(settlements):
        by_queue.setdefault(settlement.claim.queue if room.cluster else "", []).append(position)
    return [part for positions in by_queue.values() for part in parts(positions)]


async def _settle(room: Room, settlements: Sequence[Settlement]) -> list[bool]:
    return (await _turn(room, settlements, [], 0, 0, "")).took


async def _turn(
    room: Room,
    settlements: Sequence[Settlement],
    queues: list[str],
    limit: int,
    lease: Wait,
    worker: str,
    look: int = MOST,
) -> ClaimResult:
    doubt = Doubt()
    numbers = {queue: number for number, queue in enumerate(queues, 1)}
    order, args = _groups(settlements, numbers)
    roots = [room.keys.queue(queue) for queue in numbers]
    number = room.number() if settlements else ("", "")
    now, stale, shares, fixed, touched, again, _, away = await room.link.run(
        "settle_and_claim",
        roots,
        room.now(),
        room.keys.bell,
        worker,
        lease,
        limit,
        len(queues),
        look,
        *number,
        *args,
        doubt=doubt,
    )
    took = [True] * len(settlements)
    for position in stale:
        took[order[position - 1]] = False
    if stale and doubt.justified:
        took = await _look_again(room, settlements, took)
    busy = [
        Busy(as_name(id), as_name(task), queue.decode(), ended == 1)
        for queue, id, task, ended in away
    ]
    claims = _claims(queues, shares, fixed, touched, now) if shares else []
    if len(claims) < len(fixed):
        await aside.set_aside_claimed(room, queues, now)
    return ClaimResult(took, claims, again, busy)


def _claims(
    queues: list[str], shares: list[int], fixed: list[bytes], touched: list[Any], now: Moment
) -> list[Claim]:
    """Without those whose records cannot be read."""
    pasts = {position - 1: (live, progress) for position, live, progress in touched}
    try:
        return _all_claims(queues, shares, fixed, pasts, now)
    except BAD:
        return [
            claim
            for claim in _readable_claims(queues, shares, fixed, pasts, now)
            if claim is not None
        ]


def _all_claims(
    queues: list[str], shares: list[int], fixed: list[bytes], pasts: _Pasts, now: Moment
) -> list[Claim]:
    claims: list[Claim] = []
    start = 0
    for queue, share in zip(queues, shares, strict=True):
        claims += [first_claim(raw, queue, now) for raw in fixed[start : start + share]]
        start += share
    for position, (live, progress) in pasts.items():
        claims[position] = later_claim(claims[position], live, progress)
    return claims


def _readable_claims(
    queues: list[str], shares: list[int], fixed: list[bytes], pasts: _Pasts, now: Moment
) -> Iterator[Claim | None]:
    of = [queue for queue, share in zip(queues, shares, strict=True) for _ in range(share)]
    for position, (queue, raw) in enumerate(zip(of, fixed, strict=True)):
        past = {0: pasts[position]} if position in pasts else {}
        try:
            yield _all_claims([queue], [1], [raw], past, now)[0]
        except BAD:
            yield None


class _Group:
    """Settlements that the script puts down in the same way: by token, where they stood in the
    list, and their items."""

    __slots__ = ("head", "items", "positions")

    def __init__(self, *head: Any) -> None:
        self.head = head
        self.positions: dict[int, list[int]] = {}
        self.items: dict[int, list[Any]] = {}

    def under(self, token: int) -> tuple[list[int], list[Any]]:
        """Where to put those that are put down under this token."""
        place: tuple[list[int], list[Any]] = [], []
        self.positions[token], self.items[token] = place
        return place

    def args(self) -> list[Any]:
        tokens = [part for token, mine in self.positions.items() for part in (token, len(mine))]
        items = [item for mine in self.items.values() for item in mine]
        return [
            *self.head,
            len(self.items),
            *tokens,
            sum(map(len, self.positions.values())),
            *items,
        ]


def _groups(
    settlements: Sequence[Settlement], numbers: dict[str, int]
) -> tuple[list[int], list[Any]]:
    """The settlements as `lua/turn.lua` reads them, and which was the n-th of those.

    Jobs that simply succeeded go in groups, which the script puts down many at a time. They have
    nothing to do with one another or with the rest, so it does not matter that they come in another
    order; a claim that is put down twice does."""
    twice = len({settlement.claim.id for settlement in settlements}) < len(settlements)
    groups: dict[tuple[str, Wait | None], _Group] = {}
    places: dict[tuple[str, Wait | None, int], tuple[list[int], list[Any]]] = {}
    last, simple, key = None, False, None
    for position, settlement in enumerate(settlements):
        claim, said = settlement.claim, settlement.verdict
        if said is not last:  # runs that ended alike share their verdict
            last, simple, key = said, not twice and said.is_plain_success, None
        plain = simple and claim.resource is None and claim.unique is None and claim.ref is not None
        # most are like the one before
        if key is None or not plain or claim.token != key[2] or claim.queue != key[0]:
            key = (claim.queue, said.keep, claim.token) if plain else (claim.queue, None, 0)
            place = places.get(key)
            if place is None:
                if key[:2] not in groups:
                    groups[key[:2]] = _group(numbers, claim, said, plain)
                place = places[key] = groups[key[:2]].under(key[2])
            positions, items = place
        positions.append(position)
        if not plain:
            result = b"" if said.result is None else b"+" + said.result
            items += (claim.id, claim.token, verdict(said), result)
        elif said.keep:
            items += (claim.ref, said.result)
        else:
            items.append(claim.id)
    args: list[Any] = [len(groups), sum(keep is None for _, keep in groups)]
    for group in groups.values():
        args += group.args()
    order = [
        position
        for group in groups.values()
        for mine in group.positions.values()
        for position in mine
    ]
    return order, args


def _group(numbers: dict[str, int], claim: Claim, said: Verdict, plain: bool) -> _Group:
    number = numbers.setdefault(claim.queue, len(numbers) + 1)
    if not plain:
        return _Group(number, "each", "", 0)
    return _Group(number, "kept" if said.keep else "forgotten", verdict(said), said.keep)


async def _look_again(
    room: Room, settlements: Sequence[Settlement], took: list[bool]
) -> list[bool]:
    """The connection was cut, the call was made again, and another call came in between: what is
    stale now may have been put down by the first one. A job that left `running` under this very
    token was; of one that is gone nobody knows."""
    for position, settlement in enumerate(settlements):
        if took[position]:
            continue
        claim = settlement.claim
        [row] = await room.in_queue("find", claim.queue, claim.id)
        if row is not None:
            job = as_job(row, claim.queue, claim.id)
            took[position] = job.token == claim.token and job.state is not State.RUNNING
    return took


async def _claim_over_nodes(
    room: Room, queues: list[str], limit: int, lease: Wait, worker: str
) -> ClaimResult:
    """On a cluster one call reaches one queue: queue after queue."""
    claims: list[Claim] = []
    busy: list[Busy] = []
    again: Wait | None = None
    for queue in queues:
        said = await _turn(
            room, [], [queue], limit - len(claims), lease, worker, MOST - len(claims)
        )
        claims += said.claims
        busy += said.busy
        if limit and len(claims) >= limit:
            return ClaimResult([], claims, 0, busy)
        again = (
            said.again if again is None else min(again, again if said.again is None else said.again)
        )
    return ClaimResult([], claims, again, busy)
