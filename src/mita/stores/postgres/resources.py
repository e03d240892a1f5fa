"""Resource keys: which jobs may run, which must wait, and which are woken.

Every change of a key's holders or waiters takes the key's advisory lock first, and reads the key
with a later statement, so it sees all that others have done. Jobs without a key skip all this."""

from collections.abc import Iterable, Sequence

from mita.model.job import Claim
from mita.model.outcome import Busy
from mita.model.time import Wait
from mita.rules.busy import BUSY_POLICIES, BUSY_RETENTION, BusyPolicy
from mita.rules.readable import SET_ASIDE_KEEP, salvaged

from .codec import Row, Rows
from .context import PostgresContext, Query, RoundTrip, RoundTrips, query
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


def key_states(context: PostgresContext, keys: Sequence[ResourceKey]) -> Query:
    """The number of holders of each key, whether it is on hold, the first start, and the clock."""
    watermarks = numbers(context.watermarks.of_keys(keys))
    return query("key_state", **_columns(keys), watermarks=watermarks)


def wake(
    context: PostgresContext, keys: Sequence[ResourceKey], mosts: Sequence[int | None]
) -> Query:
    """Return waiting jobs of these keys to the queue: as many as may run, `mosts` at most."""
    watermarks = numbers(context.watermarks.of_keys(keys))
    return query("key_wake", **_columns(keys), mosts=numbers(mosts), watermarks=watermarks)


def unhold(keys: Sequence[ResourceKey]) -> Query:
    """Remove the holds on these keys that have ended."""
    return query("key_unhold", **_columns(keys))


def _columns(keys: Sequence[ResourceKey]) -> dict[str, str]:
    return {"queues": texts([queue for queue, _ in keys]), "keys": texts([key for _, key in keys])}


def notify_woken(context: PostgresContext, rows: Rows) -> None:
    """Notify the queues of the jobs that `wake` returned to them."""
    context.topics.update(row[0] for row in rows)


# ------------------------------------------------------------------------------------------- waking


def wake_all(context: PostgresContext, keys: Sequence[Row]) -> RoundTrips[None]:
    """Remove the holds on these keys that have ended, and wake as many waiting jobs as may run. A
    key that another session has locked is left to that session."""
    for start in range(0, len(keys), LOCKED_KEYS):
        some: list[ResourceKey] = [(queue, key) for queue, key in keys[start : start + LOCKED_KEYS]]
        [locked] = yield RoundTrip(try_lock(context, some))
        ours = [key for key, (got,) in zip(some, locked, strict=True) if got]
        if ours:
            answers = yield RoundTrip(unhold(ours), wake(context, ours, [None] * len(ours)))
            notify_woken(context, answers[1])
        yield RoundTrip(last=True)


# ---------------------------------------------------------------------------------------- admitting


def admit(
    context: PostgresContext, shown: list[Claim], lease: Wait, worker: str
) -> RoundTrips[tuple[list[Claim], list[Busy]]]:
    """Claim those of these jobs whose key is free; the others wait or end, as their `when_busy`
    says. Returns both. A job whose key another session has locked is in neither list and stays as
    it is."""
    keys: list[ResourceKey] = list(dict.fromkeys(_key(claim) for claim in shown))
    locked, candidates, states = yield RoundTrip(
        try_lock(context, keys),
        query("claim_candidates", ids=texts([claim.id for claim in shown])),
        key_states(context, keys),
    )
    ours = {key for key, (got,) in zip(keys, locked, strict=True) if got}
    found = {key: state for key, state in zip(keys, states, strict=True) if key in ours}
    context.watermarks.move_keys({key: (first, now) for key, (_, _, first, now) in found.items()})
    policies, unreadable = _policies(candidates)
    known = [claim for claim in shown if _key(claim) in ours and claim.id in policies]
    free, busy = _by_room(known, policies, found)
    answers = yield RoundTrip(
        _take(free, lease, worker),
        *_turn_away(busy),
        aside(unreadable),
        last=True,
    )
    taken = {id for (id,) in answers[0]} if free else set()
    away = [Busy(claim.id, claim.task, claim.queue, policy.ends) for claim, policy in busy]
    return [claim for claim in free if claim.id in taken], away


def _key(claim: Claim) -> ResourceKey:
    return claim.queue, claim.resource or ""


def _policies(
    candidates: Rows,
) -> tuple[dict[str, tuple[int, BusyPolicy]], list[tuple[str, str]]]:
    """The limit and the busy policy of each job; and the jobs whose record cannot be read, with the
    reason."""
    policies: dict[str, tuple[int, BusyPolicy]] = {}
    unreadable: list[tuple[str, str]] = []
    for id, most, when_busy in candidates:
        found = salvaged({"limit": most, "when_busy": when_busy})
        if found.limit == most and found.when_busy == when_busy:
            policies[id] = most, BUSY_POLICIES[found.when_busy]
        else:
            unreadable.append((id, found.error or ""))
    return policies, unreadable


def aside(found: Sequence[tuple[str, str]]) -> Query | None:
    """Turn these jobs into failed ones, each with its reason."""
    if not found:
        return None
    ids, reasons = texts([id for id, _ in found]), texts([reason for _, reason in found])
    return query("aside", ids=ids, reasons=reasons, keep=SET_ASIDE_KEEP)


def _by_room(
    claims: list[Claim],
    policies: dict[str, tuple[int, BusyPolicy]],
    states: dict[ResourceKey, Row],
) -> tuple[list[Claim], list[tuple[Claim, BusyPolicy]]]:
    """The jobs whose key has room for them, and the others with their busy policy."""
    holders = {key: count for key, (count, *_) in states.items()}
    free: list[Claim] = []
    busy: list[tuple[Claim, BusyPolicy]] = []
    for claim in claims:
        key = _key(claim)
        limit, policy = policies[claim.id]
        on_hold = states[key][1]
        if on_hold or holders[key] >= limit:
            busy.append((claim, policy))
        else:
            holders[key] += 1
            free.append(claim)
    return free, busy


def _take(claims: list[Claim], lease: Wait, worker: str) -> Query | None:
    if not claims:
        return None
    ids, tokens = texts([claim.id for claim in claims]), numbers(claim.token for claim in claims)
    return query("claim_take", ids=ids, tokens=tokens, lease=lease, worker=worker)


def _turn_away(busy: list[tuple[Claim, BusyPolicy]]) -> list[Query]:
    """In the given order, because a job that replaces others must find the earlier ones blocked."""
    queries: list[Query] = []
    together: list[tuple[Claim, BusyPolicy]] = []
    for claim, policy in busy:
        if policy.replaces:
            queries += _block(together)
            together = []
            queue, key = _key(claim)
            queries.append(
                query("claim_replace", queue=queue, key=key, id=claim.id, keep=BUSY_RETENTION)
            )
        if policy.ends:
            values = {"state": policy.state.value, "kind": policy.line.value}
            queries.append(
                query("claim_skip", ids=texts([claim.id]), keep=BUSY_RETENTION, **values)
            )
        else:
            together.append((claim, policy))
    return queries + _block(together)


def _block(busy: list[tuple[Claim, BusyPolicy]]) -> list[Query]:
    if not busy:
        return []
    return [
        query(
            "claim_block",
            ids=texts([claim.id for claim, _ in busy]),
            states=texts([policy.state for _, policy in busy]),
            kinds=texts([policy.line for _, policy in busy]),
        )
    ]
