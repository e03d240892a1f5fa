"""The keys of running jobs beside their resource key, in the table `_key_holder`. A row whose job
does not run counts for nothing, and a reap deletes it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mita.model.job import Claim
from mita.rules.gates import keys_of
from mita.stores.postgres.context import Query, query
from mita.stores.postgres.server.arrays import texts


class FurtherKey(NamedTuple):
    """A key that a job has beside its resource key."""

    queue: str
    key: str
    id: str


def further_keys(claims: Iterable[Claim]) -> list[FurtherKey]:
    """The keys of these jobs beside their resource keys."""
    return [
        FurtherKey(claim.queue, key, claim.id)
        for claim in claims
        if claim.gates
        for key in keys_of(None, claim.gates)
        if key != claim.resource
    ]


def hold_further(keys: Sequence[FurtherKey]) -> Query | None:
    """These jobs run: they have these keys."""
    return _query("key_hold_further", keys)


def free_further(keys: Sequence[FurtherKey]) -> Query | None:
    """Those of these jobs that do not run any more have none of these keys."""
    return _query("key_free_further", keys)


def _query(statement: str, found: Sequence[FurtherKey]) -> Query | None:
    """Sorted, so that two sessions cannot deadlock."""
    if not found:
        return None
    queues, keys, ids = zip(*sorted(found), strict=True)
    return query(statement, queues=texts(queues), keys=texts(keys), ids=texts(ids))
