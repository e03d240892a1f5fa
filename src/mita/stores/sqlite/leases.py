"""Extending leases, and taking over jobs whose lease has expired."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from mita.model.job import Asked, Claim
from mita.model.outcome import Held
from mita.model.time import Wait

from . import maintenance, resources
from .codec import read_expired, to_claim
from .context import SqliteContext, as_json

_from_json = msgspec.json.Decoder().decode


def extend(context: SqliteContext, claims: Sequence[Claim], lease: Wait) -> list[Held]:
    """Keep claims for `lease` from now."""
    until = context.now + lease
    context.run_many("extend", [(claim.ref, claim.token, until) for claim in claims])
    asked: dict[tuple[int, int], str | None] = {}
    for text in context.texts("extend_held", [(claim.ref, claim.token) for claim in claims]):
        asked.update({(seq, token): what for seq, token, what in _from_json(text)})
    return [_held(asked, (claim.ref, claim.token)) for claim in claims]


def _held(asked: dict[tuple[int, int], str | None], claim: tuple[int, int]) -> Held:
    if claim not in asked:
        return Held.LOST
    return Held.CANCEL if asked[claim] == Asked.CANCEL else Held.HELD


def reap(context: SqliteContext, limit: int, lease: Wait, worker: str) -> list[Claim]:
    """Take over jobs whose lease has expired, with a new token. Also wakes jobs whose key is free,
    and sets aside records that no claim would ever find."""
    resources.end_holds(context, None)
    resources.wake_all(context)
    maintenance.set_aside_unreachable(context)
    found = _expired(context, limit)
    if found:
        seqs = as_json([row[0] for row, _ in found])
        context.run("reap_take", seqs=seqs, until=context.now + lease, worker=worker)
    return [replace(to_claim(row, context.now), lost=lost) for row, lost in found]


def _expired(context: SqliteContext, limit: int) -> list[Any]:
    """As many as fit into one text. The next reap finds the others."""
    while True:
        try:
            return read_expired(context.value("reap_expired", now=context.now, limit=limit))
        except sqlite3.DataError:
            if limit <= 1:
                raise
            limit //= 2
