"""Keys: which jobs may run, which must wait, and which are woken.

Every change of a key's holders, waiters or rate takes the key's advisory lock first, and reads the
key with a later statement, so it sees all that others have done. Jobs without a key skip all this.
Settlements wait for the locks of their keys, in one order. Claims never wait: they leave out a job
if another session has locked one of its keys. So no two of them can deadlock."""

from collections.abc import Iterable, Mapping, Sequence

from mita.model.job import Claim
from mita.rules.gates import keys_of
from mita.rules.readable import BAD, SET_ASIDE_KEEP

from .codec import Row, Rows, UnreadableRow, read_gates
from .context import PostgresContext, Query, RoundTrip, RoundTrips, query
from .limits.key_states import GatedJob, KeyStates, key_columns, read_states
from .server.arrays import numbers, texts
from .server.locks import lock_number
from .throughput.watermarks import ResourceKey

# Keys locked in one transaction at most: a server has a few thousand locks for all sessions.
LOCKED_KEYS = 200


def lock(context: PostgresContext, keys: Iterable[ResourceKey]) -> Query | None:
    """Lock these keys until the transaction ends. Sorted, so that two sessions cannot deadlock."""
    locks = sorted({lock_number(context.statements.namespace, *key) for key in keys})
    return query("key_lock", locks=numbers(locks)) if locks else None


def try_lock(context: PostgresContext, keys: Sequence[ResourceKey]) -> Query:
    """Lock those of these keys that are not locked. Returns one boolean for each."""
    namespace = context.statements.namespace
    return query("key_try_lock", locks=numbers(lock_number(namespace, *key) for key in keys))


def unhold(keys: Sequence[ResourceKey]) -> Query:
    """Remove the holds on these keys that have ended."""
    return query("key_unhold", **key_columns(keys))


def claim_keys(claim: Claim) -> list[ResourceKey]:
    """All keys of a claimed job, with its queue."""
    return [(claim.queue, key) for key in keys_of(claim.resource, claim.gates)]


# ------------------------------------------------------------------------------------------- waking


def wake(
    context: PostgresContext,
    mosts: Mapping[ResourceKey, int | None],
    *before: Query | None,
    last: bool = False,
) -> RoundTrips[None]:
    """Return waiting jobs of these keys, which are locked, to the queue: as many as may run, and as
    many as the mapping says at most (None: all). `before` are statements that come first. `last`
    ends the transaction; keys that are only named are then locked again."""
    keys = list(mosts)
    watermarks = numbers(context.watermarks.of_keys(keys))
    most = numbers(mosts.values())
    *_, rows = yield RoundTrip(
        *before,
        query("key_wake", **key_columns(keys), mosts=most, watermarks=watermarks),
        last=last,
    )
    context.topics.update(queue for queue, key, _ in rows if key is None)
    if special := [(queue, key) for queue, key, _ in rows if key is not None]:
        again = lock(context, special) if last else None
        *_, firsts, states = yield RoundTrip(again, *first_waiters(context, special))
        left = [mosts[key] for key in special]
        yield RoundTrip(*_return_jobs(context, special, left, firsts, states), last=last)


def first_waiters(context: PostgresContext, keys: Sequence[ResourceKey]) -> list[Query]:
    """The first job that waits at each of these keys, and what `KeyStates` needs."""
    first = query("key_first", **key_columns(keys))
    return [first, read_states(context, keys, [True] * len(keys))]


def _return_jobs(
    context: PostgresContext,
    keys: Sequence[ResourceKey],
    mosts: Sequence[int | None],
    firsts: Rows,
    rows: Rows,
) -> list[Query | None]:
    """Wake jobs, and store the rates. A first job that cannot be read is woken: then the claim
    that finds it sets it aside."""
    states = KeyStates(keys, rows)
    woken = [
        states.wake(key, waiter(first), first[0], most)
        for key, first, most in zip(keys, firsts, mosts, strict=True)
    ]
    context.topics.update(queue for (queue, _), n in zip(keys, woken, strict=True) if n)
    return [query("key_return", **key_columns(keys), numbers=numbers(woken)), states.store()]


def waiter(first: Row) -> GatedJob:
    """The first job that waits at a key, in a row of `key_first`."""
    _, resource, limit, gates = first
    try:
        return GatedJob(resource, max(1, limit or 1), read_gates(gates))
    except BAD:
        return GatedJob(resource, 1, ())


def wake_all(context: PostgresContext, keys: Sequence[Row]) -> RoundTrips[None]:
    """Remove the holds on these keys that have ended, and wake as many waiting jobs as may run. A
    key that another session has locked is left to that session."""
    for start in range(0, len(keys), LOCKED_KEYS):
        some: list[ResourceKey] = [(queue, key) for queue, key in keys[start : start + LOCKED_KEYS]]
        [locked] = yield RoundTrip(try_lock(context, some))
        ours = [key for key, (got,) in zip(some, locked, strict=True) if got]
        if ours:
            yield from wake(context, dict.fromkeys(ours), unhold(ours))
        yield RoundTrip(last=True)


def wake_due(context: PostgresContext, keys: Sequence[ResourceKey]) -> RoundTrips[None]:
    """Wake the jobs that wait at these keys, whose rates have tokens again."""
    for start in range(0, len(keys), LOCKED_KEYS):
        some = [(queue, key) for queue, key in keys[start : start + LOCKED_KEYS]]
        locked, firsts, rows = yield RoundTrip(
            try_lock(context, some), *first_waiters(context, some)
        )
        found = [
            (key, first, row)
            for key, first, row, (got,) in zip(some, firsts, rows, locked, strict=True)
            if got
        ]
        ours = [key for key, _, _ in found]
        yield RoundTrip(
            *_return_jobs(
                context,
                ours,
                [None] * len(ours),
                [first for _, first, _ in found],
                [row for *_, row in found],
            )
            if found
            else [],
            last=True,
        )


def stop_waking(
    context: PostgresContext, keys: Iterable[tuple[str, str | None]]
) -> RoundTrips[None]:
    """Jobs that waited at these keys no longer do (None: a job did not wait). Where no other job
    waits, the clock wakes none. A key that another session has locked is left as it is: then a
    claim finds at that time that no job waits there."""
    left = sorted({(queue, key) for queue, key in keys if key is not None})
    for start in range(0, len(left), LOCKED_KEYS):
        some = left[start : start + LOCKED_KEYS]
        [locked] = yield RoundTrip(try_lock(context, some))
        if ours := [key for key, (got,) in zip(some, locked, strict=True) if got]:
            yield RoundTrip(query("key_no_wake", **key_columns(ours)))


# ---------------------------------------------------------------------- records that cannot be read


def aside(found: Sequence[UnreadableRow]) -> Query | None:
    """Turn these jobs into failed ones, each with its reason."""
    if not found:
        return None
    ids, reasons = texts([id for id, _ in found]), texts([reason for _, reason in found])
    return query("aside", ids=ids, reasons=reasons, keep=SET_ASIDE_KEEP)
