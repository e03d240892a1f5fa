"""Keys: which jobs may run, which must wait, and which are woken.

Every change of a key's holders, waiters or rate takes the key's advisory lock first, and reads the
key with a later statement, so it sees all that others have done. Jobs without a key skip all this.
Settlements wait for the locks of their keys, in one order. Claims never wait: they leave out a job
if another session has locked one of its keys. So no two of them can deadlock."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from mita.model.job import Claim, WhenBusy
from mita.model.outcome import Busy
from mita.model.time import Wait
from mita.rules.busy import BUSY_RETENTION, RATE_POLICY, BusyPolicy
from mita.rules.gates import keys_of
from mita.rules.readable import BAD, SET_ASIDE_KEEP, salvaged

from .codec import Row, Rows, UnreadableRow, read_gates
from .context import PostgresContext, Query, RoundTrip, RoundTrips, query
from .limits.further_keys import further_keys, hold_further
from .limits.key_states import GatedJob, KeyStates, key_columns, read_states
from .server.arrays import numbers, texts
from .server.locks import lock_number
from .throughput.watermarks import ResourceKey

# Keys locked in one transaction at most: a server has a few thousand locks for all sessions.
LOCKED_KEYS = 200
ADMITTED_KEYS = 1000  # the same for a claim


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


# ---------------------------------------------------------------------------------------- admitting


class TurnedAway(NamedTuple):
    """A job that could not pass a gate, and what it does."""

    id: str
    task: str
    queue: str
    key: str
    policy: BusyPolicy


class LockedJobs(NamedTuple):
    """What a claim has locked before it admits jobs: the keys of `states`, and all shown jobs, with
    their limits and busy policies. `leaves`: some that it has woken are not among them."""

    states: KeyStates
    candidates: Rows
    leaves: bool


class Admitted(NamedTuple):
    """The jobs that start; those that were turned away; and whether the clock now wakes a job at
    another time than before."""

    claims: list[Claim]
    busy: list[Busy]
    has_other_wakes: bool


def admit(
    context: PostgresContext,
    shown: list[Claim],
    lease: Wait,
    worker: str,
    locked: LockedJobs | None = None,
    *more: Query | None,
) -> RoundTrips[Admitted]:
    """Claim those of these jobs whose gates are all open; the others wait or end, as their
    `when_busy` says. Returns both. A job is in neither list and stays as it is if another session
    has locked one of its keys. `more` are statements of the same transaction."""
    shown, keys = _few_keys(shown)
    states, candidates = yield from _lock_and_read(context, shown, keys, locked)
    policies, unreadable = _policies(candidates)
    ours = states.keys
    free: list[Claim] = []
    busy: list[TurnedAway] = []
    for claim in shown:
        if claim.id not in policies or not all(key in ours for key in claim_keys(claim)):
            continue
        limit, when_busy = policies[claim.id]
        one_key = None if claim.gates else claim.resource
        if one_key is not None and states.admits(claim.queue, one_key, limit):
            free.append(claim)
            continue
        gates = states.gates_of(claim.queue, GatedJob(claim.resource, limit, claim.gates))
        gate = states.closed_gate(claim.queue, gates)
        if gate is None:
            states.pass_gates(claim.queue, gates)
            free.append(claim)
        else:
            policy = states.block(claim.queue, gate, when_busy)
            busy.append(TurnedAway(claim.id, claim.task, claim.queue, gate.key, policy))
    if locked is not None and (locked.leaves or len(free) + len(busy) < len(shown)):
        context.topics.update(claim.queue for claim in shown)
        more = (*more, query("key_behind"))
    other_wakes = states.has_other_wakes
    queries = [_take(free, lease, worker), hold_further(further_keys(free)), *turn_away(busy)]
    answers = yield RoundTrip(*queries, states.store(), aside(unreadable), *more, last=True)
    taken = {id for (id,) in answers[0]} if free else set()
    claims = [claim for claim in free if claim.id in taken]
    return Admitted(claims, as_busy(busy), other_wakes)


def _lock_and_read(
    context: PostgresContext,
    shown: list[Claim],
    keys: list[ResourceKey],
    locked: LockedJobs | None,
) -> RoundTrips[tuple[KeyStates, Rows]]:
    """The keys of these jobs that this transaction has locked, and for each job that still waits
    its id, its limit and its busy policy."""
    states, candidates = (KeyStates([], []), None) if locked is None else locked[:2]
    new = [key for key in keys if key not in states.keys]
    if candidates is not None and not new:
        return states, candidates
    counts = counted(new, shown)
    ids = texts([claim.id for claim in shown])
    got, rows, *found = yield RoundTrip(
        try_lock(context, new),
        read_states(context, new, counts),
        query("claim_candidates", ids=ids) if candidates is None else None,
    )
    ours = {key: row for key, row, (yes,) in zip(new, rows, got, strict=True) if yes}
    known = {key for key, was_counted in zip(new, counts, strict=True) if was_counted}
    firsts = {key: (row[2], row[3]) for key, row in ours.items() if key in known}
    context.watermarks.move_keys(firsts)
    states.add(list(ours), list(ours.values()))
    return states, found[0] if candidates is None else candidates


def as_busy(away: list[TurnedAway]) -> list[Busy]:
    """What a claim says of jobs that were turned away."""
    return [
        Busy(one.id, one.task, one.queue, one.policy.ends, one.policy is RATE_POLICY)
        for one in away
    ]


def counted(keys: Sequence[ResourceKey], shown: Iterable[Claim]) -> list[bool]:
    """For each key whether one of these jobs has a limit for it."""
    limited = {
        (claim.queue, gate.key) for claim in shown for gate in claim.gates if gate.limit is not None
    }
    limited.update((claim.queue, claim.resource) for claim in shown if claim.resource is not None)
    return [key in limited for key in keys]


def _few_keys(shown: list[Claim]) -> tuple[list[Claim], list[ResourceKey]]:
    """The first of these jobs, and their keys."""
    keys: dict[ResourceKey, None] = {}
    for at, claim in enumerate(shown):
        if len(keys) > ADMITTED_KEYS:
            return shown[:at], list(keys)
        keys.update(dict.fromkeys(claim_keys(claim)))
    return shown, list(keys)


def _policies(candidates: Rows) -> tuple[dict[str, tuple[int, WhenBusy]], list[UnreadableRow]]:
    """The limit and the busy policy of each job; and the jobs whose record cannot be read, with the
    reason."""
    policies: dict[str, tuple[int, WhenBusy]] = {}
    unreadable: list[UnreadableRow] = []
    for id, most, when_busy in candidates:
        found = salvaged({"limit": most, "when_busy": when_busy})
        if found.limit == most and found.when_busy == when_busy:
            policies[id] = most, found.when_busy
        else:
            unreadable.append((id, found.error or ""))
    return policies, unreadable


def aside(found: Sequence[UnreadableRow]) -> Query | None:
    """Turn these jobs into failed ones, each with its reason."""
    if not found:
        return None
    ids, reasons = texts([id for id, _ in found]), texts([reason for _, reason in found])
    return query("aside", ids=ids, reasons=reasons, keep=SET_ASIDE_KEEP)


def _take(claims: list[Claim], lease: Wait, worker: str) -> Query | None:
    if not claims:
        return None
    ids, tokens = texts([claim.id for claim in claims]), numbers(claim.token for claim in claims)
    return query("claim_take", ids=ids, tokens=tokens, lease=lease, worker=worker)


def turn_away(busy: list[TurnedAway]) -> list[Query]:
    """In the given order, because a job that replaces others must find the earlier ones blocked."""
    queries: list[Query] = []
    together: list[TurnedAway] = []
    for one in busy:
        policy = one.policy
        if policy.replaces:
            queries += _block(together)
            together = []
            replaced = {"queue": one.queue, "key": one.key, "id": one.id}
            queries.append(query("claim_replace", **replaced, keep=BUSY_RETENTION))
        if policy.ends:
            values = {"state": policy.state.value, "kind": policy.line.value}
            values["note"] = policy.note(one.key)
            ids = texts([one.id])
            queries.append(query("claim_skip", ids=ids, keep=BUSY_RETENTION, **values))
        else:
            together.append(one)
    return queries + _block(together)


def _block(busy: list[TurnedAway]) -> list[Query]:
    if not busy:
        return []
    return [
        query(
            "claim_block",
            ids=texts([one.id for one in busy]),
            states=texts([one.policy.state for one in busy]),
            kinds=texts([one.policy.line for one in busy]),
            notes=texts([one.policy.note(one.key) for one in busy]),
            keys=texts([one.key for one in busy]),
        )
    ]
