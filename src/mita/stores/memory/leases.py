"""Extending leases, and taking over jobs whose lease has expired."""

from collections.abc import Sequence

from msgspec.structs import replace

from mita.model.job import Asked, Claim
from mita.model.outcome import Held
from mita.model.time import Wait

from .codec import to_claim
from .context import MemoryContext
from .resources import free_keys, open_keys


def extend(context: MemoryContext, claims: Sequence[Claim], lease: Wait) -> list[Held]:
    """Keep claims for `lease` from now."""
    return [_extend(context, claim, lease) for claim in claims]


def _extend(context: MemoryContext, claim: Claim, lease: Wait) -> Held:
    record = context.held_by(claim)
    if record is None:
        return Held.LOST
    job = context.change(record, lease_until=context.now + lease)
    return Held.CANCEL if job.asked is Asked.CANCEL else Held.HELD


def reap(context: MemoryContext, limit: int, lease: Wait, worker: str) -> list[Claim]:
    """Take over jobs whose lease has expired. The new claim has a new token, so everything that the
    lost worker still writes is refused. Also wakes jobs whose key is free."""
    open_keys(context)
    free_keys(context)
    claims = []
    for id in context.state.index.leases.until(context.now)[:limit]:
        record = context.state.records[id]
        lost = record.job.worker
        job = context.change(
            record,
            token=record.job.token + 1,
            worker=worker,
            lease_until=context.now + lease,
        )
        claims.append(replace(to_claim(job, context.now), lost=lost))
    return claims
