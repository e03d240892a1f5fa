"""Keys: which jobs may run, which have to wait, and which are woken. Each function works inside the
transaction of the verb that calls it. The rules are in `rules.gates` and `rules.busy`."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from mita.model.gate import Gate, StoredLimit
from mita.model.job import Claim
from mita.model.time import When
from mita.rules import gates
from mita.rules.gates import KeyUse

from .codec import is_text
from .context import SqliteContext, as_json
from .limits import key_states, queue_states
from .limits.admission import GatedRow
from .limits.key_states import gate_in_force, read_gates

WAKE_SCAN_KEYS = 1000  # keys that one claim opens at most
# a row of `key_freed`
_Freed: TypeAlias = tuple[str, int | None, int, int, int | None]
_read_freed = msgspec.json.Decoder(list[_Freed]).decode


# ------------------------------------------------------------ wake


def wake(
    context: SqliteContext, queue: str, key: str, *, after_run: bool = False, running: int = 0
) -> bool:
    """Return the first jobs that wait at a key to the queue: as many as may run, by the gate of the
    first of them; at most one after a run. `running`: so many jobs count as running beside those
    that do. Returns whether the clock will wake the next one."""
    waiting, now = context.rows("key_waiters", queue=queue, key=key, limit=2), context.now
    if not waiting:
        return False
    declared = _gate_of(waiting[0], key)
    state = key_states.load(context, queue, key, counted=declared.limit is not None)
    gate = gate_in_force(context, queue, declared, state)
    use = gates.bounded(gate, state.use, now)
    is_bounded = use is not state.use
    if running:
        use = replace(use, holders=use.holders + running)
    free = gates.to_wake(gate, use, now)
    if free:
        free = 1 if after_run else free
        if free > 1:
            waiting = context.rows("key_waiters", queue=queue, key=key, limit=free + 1)
        context.run("key_wake", seqs=as_json(seq for seq, *_ in waiting[:free]))
        context.topics.add(queue)
    elif after_run and state.wake_at is not None and state.wake_at > now and not is_bounded:
        return True  # a run that ends brings no token
    if not gate.interval_us:
        return False
    use = gates.after_waking(gate, use, now, min(free, len(waiting)))
    key_states.store_rate(context, queue, gate, use, waited_for=len(waiting) > free)
    return True


def _gate_of(waiter: Any, key: str) -> Gate:
    """The gate at which this job waits. A job that does not have the key is woken."""
    _, _, resource, limit, text = waiter
    job = GatedRow(resource, max(1, limit), read_gates(text))
    return next((gate for gate in gates.gates_of(job) if gate.key == key), Gate(key))


def wake_by_clock(context: SqliteContext, queues: list[str]) -> bool:
    """Wake jobs of these queues whose rate has tokens again. Returns whether more keys are due than
    one call opens."""
    names = as_json(queues)
    due = context.rows("key_wake_due", queues=names, now=context.now, limit=WAKE_SCAN_KEYS)
    for queue, key in filter(is_text, due):
        if not wake(context, queue, key):
            context.run("key_no_wake", queue=queue, key=key)
    return len(due) == WAKE_SCAN_KEYS


def wake_all(context: SqliteContext) -> None:
    """Take the keys from jobs that do not run, and wake the jobs that may run at every key at which
    jobs wait: a safety net for wake-ups that were lost."""
    context.run("key_free_lost")
    context.run("key_lost_waiters")
    for row in context.rows("key_waited"):
        if not is_text(row):
            # the record is set aside: see `maintenance.set_aside`
            raise ValueError("a blocked job has a queue or a key that cannot be read")
        queue, key = row
        wake(context, queue, key)


# ------------------------------------------------------------ settle


def free(context: SqliteContext, claim: Claim, hold_first: When | None, *, unstarted: bool) -> None:
    """A job with keys has stopped running: each of its keys wakes one job. `hold_first` puts its
    first key on hold instead. `unstarted`: the tokens of its rates are given back."""
    queue, keys = claim.queue, gates.keys_of(claim.resource, claim.gates)
    if claim.gates:
        context.run_many("key_free", [(queue, key, claim.ref) for key in keys])
    if unstarted:
        _give_back(context, claim)
    if hold_first is not None:
        hold(context, queue, keys[0], hold_first)
        keys = keys[1:]
    for key in keys:
        wake(context, queue, key, after_run=True)


def free_many(context: SqliteContext, claims: Sequence[Claim]) -> None:
    """The same as `free` for the runs of several jobs that have ended: each of them wakes one job
    at each of its keys."""
    ended: dict[str, Counter[str]] = {}
    held = list[tuple[str, str, int]]()
    for claim in claims:
        keys = gates.keys_of(claim.resource, claim.gates)
        ended.setdefault(claim.queue, Counter()).update(keys)
        if claim.gates:
            held += [(claim.queue, key, claim.ref) for key in keys]
    context.run_many("key_free", held)
    for queue, runs in ended.items():
        _wake_after_runs(context, queue, runs)


def _wake_after_runs(context: SqliteContext, queue: str, runs: Counter[str]) -> None:
    """Wake jobs at these keys, each of which so many runs have had that have ended."""
    now, woken = context.now, list[int]()
    for key, seq, limit, holders, until in _read_freed(
        context.value("key_freed", queue=queue, keys=as_json(runs))
    ):
        if seq is None or runs[key] > 1:
            for left in reversed(range(runs[key])):  # as if they ended one after the other
                wake(context, queue, key, after_run=True, running=left)
        elif gates.to_wake(Gate(key, max(1, limit)), KeyUse(holders, until or 0), now):
            woken.append(seq)
    if woken:
        context.run("key_wake", seqs=as_json(woken))
        context.topics.add(queue)


def _give_back(context: SqliteContext, claim: Claim) -> None:
    """The job was not started after all: give the tokens of its rates back."""
    for declared in gates.gates_of(GatedRow(claim.resource, 1, claim.gates)):
        state = key_states.load(context, claim.queue, declared.key, counted=False)
        gate = gates.effective(declared, state.stored)
        if not gate.interval_us or not state.use.woken_us:
            continue
        returned_us = context.returned_us(gate, claim.queue, gate.key, claim.at)
        tat_us = gates.given_back(state.use.tat_us, returned_us)
        woken_us = gates.given_back(state.use.woken_us, returned_us)
        which = {"queue": claim.queue, "key": gate.key}
        context.run("key_give_back", tat_us=tat_us, woken_us=woken_us, **which)


# ------------------------------------------------------------ holds and limits


def hold(context: SqliteContext, queue: str, key: str, when: When) -> None:
    """Put a key on hold. A point in time that is not in the future lifts the hold."""
    until = when.moment(context.now)
    if until > context.now:
        fixed = when.is_fixed(context.now)
        context.run("hold", queue=queue, key=key, until=until, fixed=fixed)
        _delay_wake(context, queue, key)
    else:
        context.run("hold_lift", queue=queue, key=key)
        wake(context, queue, key)
    context.topics.add(queue)  # workers wait until the end of a hold, which has changed


def _delay_wake(context: SqliteContext, queue: str, key: str) -> None:
    """A key was put on hold: the jobs that wait for its rate are not woken before the end."""
    state = key_states.load(context, queue, key, counted=False)
    first = context.row("key_waiters", queue=queue, key=key, limit=1) if state.waited_for else None
    if first is None:
        return
    gate = gate_in_force(context, queue, _gate_of(first, key), state)
    if gate.interval_us:
        key_states.store_rate(context, queue, gate, state.use, waited_for=True)


def end_holds(context: SqliteContext, queues: list[str] | None) -> None:
    """Delete holds that are over, in these queues or in all (None), and wake the jobs behind
    them."""
    names = None if queues is None else as_json(queues)
    for queue, key in filter(is_text, context.rows("hold_ended", queues=names, now=context.now)):
        context.run("hold_lift", queue=queue, key=key)
        wake(context, queue, key)


def limit_key(context: SqliteContext, queue: str, key: str, limit: StoredLimit | None) -> None:
    """Set or remove the limit of a key, and wake the jobs that may start now."""
    context.run("key_limit", queue=queue, key=key, stored_limit=key_states.limit_text(limit))
    context.run("key_no_wake", queue=queue, key=key)
    wake(context, queue, key)
    context.topics.add(queue)


def limit_queue(context: SqliteContext, queue: str, limit: StoredLimit | None) -> None:
    """Set or remove the limit of a queue."""
    queue_states.set_limit(context, queue, limit)
