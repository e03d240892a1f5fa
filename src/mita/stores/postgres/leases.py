"""Leases of running jobs: extending them, and reaping jobs whose lease has ended."""

from collections.abc import Sequence

from mita.model.job import Asked, Claim
from mita.model.outcome import Held
from mita.model.time import Wait

from . import codec, maintenance, resources
from .context import PostgresContext, RoundTrip, RoundTrips, query
from .limits.bounds import WOKEN_KEYS
from .server.arrays import numbers, texts
from .server.connect import SESSION_MARK_CODE, TRANSACTION_TIMEOUT_S


def extend(_: PostgresContext, claims: Sequence[Claim], lease: Wait) -> RoundTrips[list[Held]]:
    """Extend these claims, and return for each whether it is held, to be cancelled, or lost.

    The commit is synced, although tokens would keep a late settlement out: if a crash undid an
    extension, the lease would end early and the job would run twice at once. No run waits for
    this commit."""
    if not claims:
        return []
    ordered = sorted({(claim.id, claim.token) for claim in claims})
    [rows] = yield RoundTrip(
        query(
            "extend",
            ids=texts([id for id, _ in ordered]),
            tokens=numbers([token for _, token in ordered]),
            lease=lease,
        ),
        last=True,
    )
    holding = {(id, token): asked for id, token, asked in rows}
    return [_held(holding, claim) for claim in claims]


def _held(holding: dict[tuple[str, int], str | None], claim: Claim) -> Held:
    asked = holding.get((claim.id, claim.token), Held.LOST)
    if asked is Held.LOST:
        return Held.LOST
    return Held.CANCEL if asked == Asked.CANCEL else Held.HELD


def reap(context: PostgresContext, limit: int, lease: Wait, worker: str) -> RoundTrips[list[Claim]]:
    """Take over jobs whose lease has ended. First clean up what hinders others: sessions that hang,
    keys that the clock has opened, records that no claim would ever reach, keys that are free."""
    _, ended, due, [(unreachable,)], *_ = yield RoundTrip(
        query("reap_end_stopped", mark=SESSION_MARK_CODE, seconds=TRANSACTION_TIMEOUT_S),
        query("key_ended_holds", queues=None),
        query("key_due", queues=None, limit=WOKEN_KEYS),
        query("reap_any_unreachable"),
        query("reap_name_keys"),
        query("reap_free_further"),
        last=True,
    )
    yield from resources.wake_all(context, ended)
    yield from resources.wake_due(context, due)
    if unreachable:
        yield from maintenance.set_aside(context)
    [free] = yield RoundTrip(query("key_waited"))
    yield from resources.wake_all(context, free)
    watermark = context.watermarks.lease
    rows, [(now, first)] = yield RoundTrip(
        query("reap", watermark=watermark, limit=limit, lease=lease, worker=worker),
        query("reap_first_lease", watermark=watermark),
        last=True,
    )
    context.watermarks.move_lease(now, first)
    claims, unreadable = codec.claims(rows)
    if unreadable:
        yield RoundTrip(resources.aside(unreadable), last=True)
    return claims
