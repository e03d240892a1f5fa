"""The keys of runs that are settled."""

from collections.abc import Mapping, Sequence

from mita.model.gate import MOST_HOLDERS
from mita.model.job import Claim
from mita.model.outcome import Settlement
from mita.rules.gates import keys_of
from mita.stores.postgres.context import PostgresContext, Query, RoundTrip, RoundTrips
from mita.stores.postgres.throughput.watermarks import ResourceKey

from .key_states import GatedJob, KeyStates, read_states


def keys_of_claim(claim: Claim) -> Sequence[ResourceKey]:
    """The keys of a claimed job, with its queue."""
    if claim.resource is None and not claim.gates:
        return ()
    return [(claim.queue, key) for key in keys_of(claim.resource, claim.gates)]


def may_name(
    context: PostgresContext,
    settlements: Sequence[Settlement],
    freed: Mapping[ResourceKey, int | None],
) -> bool:
    """Whether `key_wake` may only name keys, so that the transaction must go on: not in queues that
    never had limits, and hardly if the runs had nothing but rates. If it does all the same and this
    process dies then, the next reap wakes the jobs."""
    if context.hints.limited.isdisjoint(queue for queue, _ in freed):
        return False
    return any(
        one.claim.resource is not None or any(gate.limit is not None for gate in one.claim.gates)
        for one in settlements
    )


def give_back(context: PostgresContext, claims: Sequence[Claim]) -> RoundTrips[Query | None]:
    """Give back the tokens of these runs, which did not start."""
    if not claims:
        return None
    keys = list(dict.fromkeys(key for claim in claims for key in keys_of_claim(claim)))
    [rows] = yield RoundTrip(read_states(context, keys, [False] * len(keys)))
    states = KeyStates(keys, rows)
    for claim in claims:
        job = GatedJob(claim.resource, MOST_HOLDERS, claim.gates)
        states.give_back(claim.queue, job, claim.at)
    return states.store()
