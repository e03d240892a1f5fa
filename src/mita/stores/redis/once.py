"""The values of `job.once`: for the life of one job, or for a while for all jobs."""

from mita.model.job import Claim
from mita.ports.store import OnceValue

from .context import RedisContext


async def load_once(context: RedisContext, claim: Claim, name: str, shared: bool) -> bytes | None:
    """The value stored under this name, for this job or (`shared`) for all; None without one."""
    found: bytes | None
    if shared:
        found = await context.in_namespace("load_once_shared", context.now(), name)
    else:
        found = await context.in_queue("load_once", claim.queue, claim.id, name)
    return found


async def once_values(context: RedisContext, id: str) -> dict[str, bytes]:
    """The values that this job has stored, by name."""
    found = await context.by_id("once_values", [id])
    pairs = found[id][1] if id in found else []
    return {pairs[at].decode(): pairs[at + 1] for at in range(0, len(pairs), 2)}


async def store_once(context: RedisContext, value: OnceValue) -> bytes | None:
    """Store a value unless there is one already. Returns the stored value; None when the token is
    stale."""
    claim = value.claim
    if value.keep is None:
        call = ("store_once", claim.queue, claim.id, claim.token)
        stored = await context.in_queue(*call, "+" + value.name, value.value)
        return None if stored is None else bytes(stored)
    roots = [context.keys.shared, context.keys.queue(claim.queue)]
    # On a cluster these are on two nodes. The token is checked first, and may have become stale
    # when the value is written.
    if context.cluster:
        held = await context.in_queue("store_once", claim.queue, claim.id, claim.token, "", "")
        if held is None:
            return None
        roots.pop()
    args = (value.name, value.value, value.keep, claim.id, claim.token)
    stored = await context.connection.run("store_once_shared", roots, context.now(), *args)
    return None if stored is None else bytes(stored)
