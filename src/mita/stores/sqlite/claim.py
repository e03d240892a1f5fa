"""Claiming, keeping and inheriting jobs."""

import sqlite3
from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from mita.model.job import Claim, Count, Limit, Priority, Token, WhenBusy
from mita.model.outcome import Busy, ClaimResult, Held, Settlement
from mita.model.time import Moment, Wait

from . import aside, resources
from .context import Tx, as_json
from .settle import settle

# jobs looked at in one call at most: a hot key's thousands are blocked a slice at a time
SCAN = 1000

_Rest: TypeAlias = tuple[
    str,
    Count,
    Count,
    Count,
    Count,
    Count,
    str | None,
    str | None,
    str | None,
    Moment | None,
    str,
    Moment | None,
    Limit,
    WhenBusy,
]
_Row: TypeAlias = tuple[int, str, Token, str, str, str, str, Priority, Moment, Moment, _Rest | None]
_Expired: TypeAlias = tuple[
    int, str, Token, str, str, str, str, Priority, Moment, Moment, _Rest | None, str | None
]
_read_expired = msgspec.json.Decoder(list[_Expired]).decode
# a row that cannot be read is an error: see `aside`
_read_rows = msgspec.json.Decoder(list[_Row]).decode
_from_json = msgspec.json.Decoder().decode


def claim(tx: Tx, queues: Sequence[str], limit: int, lease: Wait, worker: str) -> ClaimResult:
    paused = {name for (name,) in tx.rows("paused")}
    open_queues = [queue for queue in queues if queue not in paused]
    resources.end_holds(tx, open_queues)
    claims: list[Claim] = []
    busy: list[Busy] = []
    more = False
    for queue in open_queues:
        found, unfinished = _claim_queue(tx, queue, limit - len(claims), lease, worker, busy)
        claims += found
        more = more or unfinished
    if more or (limit and len(claims) >= limit):
        return ClaimResult([], claims, 0, busy)
    return ClaimResult([], claims, _again(tx, open_queues, look_for_due=limit == 0), busy)


def settle_and_claim(
    tx: Tx,
    settlements: Sequence[Settlement],
    queues: Sequence[str],
    limit: int,
    lease: Wait,
    worker: str,
) -> ClaimResult:
    """Settle first, so that keys that become free can be claimed at once."""
    took = settle(tx, settlements)
    return replace(claim(tx, queues, limit, lease, worker), took=took)


def _claim_queue(
    tx: Tx, queue: str, limit: int, lease: Wait, worker: str, busy: list[Busy]
) -> tuple[list[Claim], bool]:
    """The claims, and whether the search was cut short. Who was sent away from a key is added to
    `busy`."""
    claims: list[Claim] = []
    looked_at = 0
    while len(claims) < limit:
        if looked_at >= SCAN:
            return claims, True
        want, rows = _claimable(tx, queue, min(limit - len(claims), SCAN))
        looked_at += len(rows)
        admitted = resources.admit(tx, queue, rows, busy)
        if admitted:
            seqs = as_json(row[0] for row in admitted)
            tx.run("take", seqs=seqs, now=tx.now, until=tx.now + lease, worker=worker)
            claims += [_as_claim(row, tx.now) for row in admitted]
        if len(rows) < want:
            break
    return claims, False


def _claimable(tx: Tx, queue: str, want: int) -> tuple[int, list[_Row]]:
    """The first jobs of the line, and how many were asked for: fewer, when so many do not fit into
    one text."""
    while True:
        try:
            return want, _read_rows(tx.one("claimable", queue=queue, now=tx.now, limit=want))
        except sqlite3.DataError:
            if want <= 1:
                raise
            want //= 2


def _again(tx: Tx, queues: list[str], *, look_for_due: bool) -> Wait | None:
    if look_for_due and any(tx.one("any_due", queue=queue, now=tx.now) for queue in queues):
        return 0
    moments = [
        moment
        for queue in queues
        if (moment := tx.one("next_due", queue=queue, now=tx.now)) is not None
    ]
    return min(moments) - tx.now if moments else None


def _as_claim(row: _Row, now: Moment) -> Claim:
    """Positions, not names: this runs once per job and is most of what Python does in a claim."""
    seq, id, token, task, queue, payload, options, priority, due, created, rest = row
    args = bytes.fromhex(payload)
    if rest is None:
        return Claim(
            id,
            token,
            now,
            task,
            queue,
            args,
            bytes.fromhex(options),
            b"",
            priority,
            due,
            created,
            0,
            0,
            0,
            0,
            0,
            None,
            None,
            None,
            None,
            None,
            None,
            seq,
        )
    (
        headers,
        attempts,
        reschedules,
        busy,
        interruptions,
        crashes,
        resource,
        unique,
        repeat,
        fire_time,
        progress,
        stranded,
        _,
        _,
    ) = rest
    return Claim(
        id,
        token,
        now,
        task,
        queue,
        args,
        bytes.fromhex(options),
        bytes.fromhex(headers),
        priority,
        due,
        created,
        attempts,
        reschedules,
        busy,
        interruptions,
        crashes,
        resource,
        unique,
        repeat,
        fire_time,
        bytes.fromhex(progress) if progress else None,
        stranded,
        seq,
    )


def extend(tx: Tx, claims: Sequence[Claim], lease: Wait) -> list[Held]:
    tx.run_over("extend", [(claim.ref, claim.token, tx.now + lease) for claim in claims])
    asked: dict[tuple[int, int], str | None] = {}
    for text in tx.texts_over("holding", [(claim.ref, claim.token) for claim in claims]):
        asked.update({(seq, token): what for seq, token, what in _from_json(text)})
    return [_held(asked, (claim.ref, claim.token)) for claim in claims]


def _held(asked: dict[tuple[int, int], str | None], claim: tuple[int, int]) -> Held:
    if claim not in asked:
        return Held.LOST
    return Held.CANCEL if asked[claim] == "cancel" else Held.HELD


def reap(tx: Tx, limit: int, lease: Wait, worker: str) -> list[Claim]:
    resources.end_holds(tx, None)
    resources.mend(tx)
    aside.set_aside_unmet(tx)
    rows = _expired(tx, limit)
    if rows:
        tx.run("inherit", seqs=as_json(row[0] for row in rows), until=tx.now + lease, worker=worker)
    return [replace(_as_claim(row[:-1], tx.now), lost=row[-1]) for row in rows]


def _expired(tx: Tx, limit: int) -> list[_Expired]:
    """As many as fit into one text: the others are still there for the next reap."""
    while True:
        try:
            rows = _read_expired(tx.one("expired", now=tx.now, limit=limit))
        except sqlite3.DataError:
            if limit <= 1:
                raise
            limit //= 2
        else:
            return rows
