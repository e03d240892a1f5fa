"""Admitting jobs: which of the jobs that a claim has shown start, and what the others do."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from mita.model.job import Claim, WhenBusy
from mita.model.outcome import Busy
from mita.model.time import Wait
from mita.rules.busy import BUSY_RETENTION, RATE_POLICY, BusyPolicy
from mita.rules.readable import salvaged
from mita.stores.postgres import resources
from mita.stores.postgres.codec import Rows, UnreadableRow
from mita.stores.postgres.context import PostgresContext, Query, RoundTrip, RoundTrips, query
from mita.stores.postgres.server.arrays import numbers, texts
from mita.stores.postgres.throughput.watermarks import ResourceKey

from .further_keys import further_keys, hold_further
from .key_states import GatedJob, KeyStates, read_states

ADMITTED_KEYS = 1000  # keys that a claim locks in one transaction at most


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
    """The jobs that start; the jobs that do not; and whether the clock now wakes a job at
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
    free, busy = _decide(states, shown, policies)
    if locked is not None and (locked.leaves or len(free) + len(busy) < len(shown)):
        context.topics.update(claim.queue for claim in shown)
        more = (*more, query("key_behind"))
    other_wakes = states.has_other_wakes
    queries = [_take(free, lease, worker), hold_further(further_keys(free)), *turn_away(busy)]
    trip = RoundTrip(*queries, states.store(), resources.aside(unreadable), *more, last=True)
    answers = yield trip
    taken = {id for (id,) in answers[0]} if free else set()
    claims = [claim for claim in free if claim.id in taken]
    return Admitted(claims, as_busy(busy) + replaced(trip, answers), other_wakes)


def _decide(
    states: KeyStates, shown: list[Claim], policies: Mapping[str, tuple[int, WhenBusy]]
) -> tuple[list[Claim], list[TurnedAway]]:
    """Which of these jobs start, and which are turned away. The keys of both are locked."""
    ours = states.keys
    free: list[Claim] = []
    busy: list[TurnedAway] = []
    for claim in shown:
        if claim.id not in policies or not all(key in ours for key in resources.claim_keys(claim)):
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
            # the time of its start is the time for which the tokens were counted
            free.append(replace(claim, at=states.now))
        else:
            policy = states.block(claim.queue, gate, when_busy)
            busy.append(TurnedAway(claim.id, claim.task, claim.queue, gate.key, policy))
    return free, busy


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
        resources.try_lock(context, new),
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


def replaced(trip: RoundTrip, answers: Sequence[Rows]) -> list[Busy]:
    """The jobs that others have replaced at their keys, from the answers to these statements."""
    return [
        Busy(id, task, queue, ended=True, replaced=True)
        for asked, rows in zip(trip.queries, answers, strict=True)
        if asked.name == "claim_replace"
        for id, task, queue in rows
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
        keys.update(dict.fromkeys(resources.claim_keys(claim)))
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
