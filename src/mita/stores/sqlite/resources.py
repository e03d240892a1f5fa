"""Keys: which jobs may run, which have to wait, and which are woken. Each function works inside the
transaction of the verb that calls it. The rules are in `rules.gates` and `rules.busy`."""

from typing import Any, NamedTuple

from mita.model.gate import Gate, StoredLimit
from mita.model.job import Claim
from mita.model.outcome import Busy, TimelineKind
from mita.model.time import When
from mita.rules import gates
from mita.rules.busy import (
    BUSY_POLICIES,
    BUSY_RETENTION,
    RATE_POLICY,
    BusyPolicy,
    busy_policy,
    replaced_note,
)
from mita.rules.gates import KeyUse

from . import unique
from .codec import GATES, ID, LIMIT, RESOURCE, TASK, WHEN_BUSY, is_text, rare_fields
from .context import SqliteContext, as_json
from .limits import key_states, queue_states
from .limits.key_states import KeyState, gate_in_force, read_gates

ALL_JOBS = 1_000_000  # more than ever wait for one key
WAKE_SCAN_KEYS = 1000  # keys that one claim opens at most


class _Gated(NamedTuple):
    """What `rules.gates` needs to know of a job."""

    resource: str | None
    limit: int
    gates: tuple[Gate, ...]


# ------------------------------------------------------------ claim


def admit(context: SqliteContext, queue: str, rows: list[Any], busy: list[Busy]) -> list[Any]:
    """The rows of candidates that may run. The others are blocked or end, as their policy says, and
    are added to `busy`."""
    admission = Admission(context, queue, busy)
    admitted = [row for row in rows if admission.admits(row)]
    admission.finish()
    return admitted


class Admission:
    """Decides which candidates of one queue pass their gates. What is known of a key is read once;
    `finish` stores what has changed."""

    def __init__(self, context: SqliteContext, queue: str, busy: list[Busy]) -> None:
        self._context, self._queue, self._busy = context, queue, busy
        self._keys: dict[str, KeyState] = {}
        self._holders: list[tuple[str, str, int]] = []

    def admits(self, row: Any) -> bool:
        """Whether this candidate may run. If so, it has its keys from now on; if not, it was
        blocked or has ended."""
        rare = rare_fields(row)
        if rare is None:
            return True
        key, now = rare[RESOURCE], self._context.now
        if rare[GATES]:
            return self._passes_all(row, _Gated(key, rare[LIMIT], rare[GATES]))
        if key is None:
            return True
        state = self._keys.get(key) or self._load(key)
        if state.stored is not None or not state.is_counted:
            return self._passes_all(row, _Gated(key, rare[LIMIT], ()))
        use = state.use
        if use.held_until > now or use.holders >= rare[LIMIT]:
            self._apply_busy_policy(row, key, BUSY_POLICIES[rare[WHEN_BUSY]])
            return False
        state.use = KeyUse(use.holders + 1, use.held_until, use.tat_us, use.woken_us)
        return True

    def _load(self, key: str, *, counted: bool = True) -> KeyState:
        state = key_states.load(self._context, self._queue, key, counted=counted)
        self._keys[key] = state
        return state

    def _passes_all(self, row: Any, job: _Gated) -> bool:
        """Examine all gates of a job; pass all of them or none."""
        now, passed = self._context.now, []
        for declared in gates.gates_of(job):
            key, counted = declared.key, declared.limit is not None
            state = self._keys.get(key) or self._load(key, counted=counted)
            gate = gate_in_force(self._context, self._queue, declared, state)
            use = gates.bounded(gate, state.use, now)
            if use is not state.use:
                state.use, state.rate = use, gate
            if not gates.is_open(gate, use, now):
                self._close(row, gate, state)
                return False
            passed.append((gate, state))
        for gate, state in passed:
            state.use = gates.passed(gate, state.use, now)
            state.rate = gate if gate.interval_us else state.rate
            if gate.key != job.resource:
                self._holders.append((self._queue, gate.key, row[0]))
        return True

    def _close(self, row: Any, gate: Gate, state: KeyState) -> None:
        """This gate is not open for the job."""
        policy = busy_policy(row[-1][WHEN_BUSY], gate, state.use, self._context.now)
        self._apply_busy_policy(row, gate.key, policy)
        state.rate = gate if gate.interval_us else state.rate
        state.waited_for = state.waited_for or not policy.ends

    def _apply_busy_policy(self, row: Any, key: str, policy: BusyPolicy) -> None:
        """Apply the policy of a job that cannot pass the gate of this key."""
        context, seq, id = self._context, row[0], row[ID]
        self._busy.append(
            Busy(id, row[TASK], self._queue, policy.ends, at_rate=policy is RATE_POLICY)
        )
        if policy.replaces:
            self._replace_others(id, key)
        if policy.ends:
            _end(context, [seq], busy=1)
        else:
            context.run("claim_block", seq=seq, key=key)
        context.note(seq, policy.line, policy.note(key))

    def _replace_others(self, id: str, key: str) -> None:
        """End the other jobs that wait at the key where the job with this id has to wait."""
        context = self._context
        waiting = context.rows("key_waiters", queue=self._queue, key=key, limit=ALL_JOBS)
        replaced = [other for other, *_ in waiting]
        found = context.rows("key_replaced", seqs=as_json(replaced))
        self._busy += [
            Busy(other, task, self._queue, ended=True, replaced=True) for other, task in found
        ]
        _end(context, replaced, busy=0)
        for other in replaced:
            context.note(other, TimelineKind.REPLACED, replaced_note(id))

    def finish(self) -> None:
        """Store the numbers of the rates, and who has which key."""
        for state in self._keys.values():
            if state.rate is not None:
                key_states.store_rate(
                    self._context, self._queue, state.rate, state.use, waited_for=state.waited_for
                )
        if self._holders:
            self._context.run_many("key_hold_by", self._holders)


def _end(context: SqliteContext, seqs: list[int], *, busy: int) -> None:
    """Waiting jobs end without having run. `busy` is added to their counter."""
    unique.free_of_jobs(context, seqs)
    now, expires = context.now, context.now + BUSY_RETENTION
    context.run("claim_end", seqs=as_json(seqs), busy=busy, now=now, expires=expires)


# ------------------------------------------------------------ wake


def wake(context: SqliteContext, queue: str, key: str, *, after_run: bool = False) -> bool:
    """Return the first jobs that wait at a key to the queue: as many as may run, by the gate of the
    first of them; at most one after a run. Returns whether the clock will wake the next one."""
    first, now = context.row("key_waiters", queue=queue, key=key, limit=1), context.now
    if first is None:
        return False
    declared = _gate_of(first, key)
    state = key_states.load(context, queue, key, counted=declared.limit is not None)
    gate = gate_in_force(context, queue, declared, state)
    use = gates.bounded(gate, state.use, now)
    free, waiting = gates.to_wake(gate, use, now), [first]
    if free:
        free = 1 if after_run else free
        waiting = context.rows("key_waiters", queue=queue, key=key, limit=free + 1)
        context.run("key_wake", seqs=as_json(seq for seq, *_ in waiting[:free]))
        context.topics.add(queue)
    elif after_run and state.wake_at is not None and state.wake_at > now and use is state.use:
        return True  # a run that ends brings no token
    if not gate.interval_us:
        return False
    use = gates.after_waking(gate, use, now, min(free, len(waiting)))
    key_states.store_rate(context, queue, gate, use, waited_for=len(waiting) > free)
    return True


def _gate_of(waiter: Any, key: str) -> Gate:
    """The gate at which this job waits. A job that does not have the key is woken."""
    _, _, resource, limit, text = waiter
    job = _Gated(resource, max(1, limit), read_gates(text))
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
        context.run("key_free", queue=queue, keys=as_json(keys), job=claim.ref)
    if unstarted:
        _give_back(context, claim)
    if hold_first is not None:
        hold(context, queue, keys[0], hold_first)
        keys = keys[1:]
    for key in keys:
        wake(context, queue, key, after_run=True)


def _give_back(context: SqliteContext, claim: Claim) -> None:
    """The job was not started after all: give the tokens of its rates back."""
    for declared in gates.gates_of(_Gated(claim.resource, 1, claim.gates)):
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
