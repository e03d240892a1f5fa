"""Which candidates of a claim pass their gates. The rules are in `rules.gates` and `rules.busy`."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from mita.model.gate import Gate
from mita.model.outcome import Busy, TimelineKind
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
from mita.stores.sqlite import unique
from mita.stores.sqlite.codec import GATES, ID, LIMIT, RESOURCE, TASK, WHEN_BUSY, rare_fields
from mita.stores.sqlite.context import NotedLine, SqliteContext, as_json

from . import key_states
from .key_states import KeyState, gate_in_force

ALL_JOBS = 1_000_000  # more than ever wait for one key


class GatedRow(NamedTuple):
    """What `rules.gates` needs to know of a job."""

    resource: str | None
    limit: int
    gates: tuple[Gate, ...]


def admit(context: SqliteContext, queue: str, rows: list[Any], busy: list[Busy]) -> list[Any]:
    """The rows of candidates that may run. The others are blocked or end, as their policy says, and
    are added to `busy`."""
    admission = Admission(context, queue, busy)
    admission.load(rows)
    admitted = [row for row in rows if admission.admits(row)]
    admission.finish()
    return admitted


class Admission:
    """Decides which candidates of one queue pass their gates. What is known of a key is read once;
    `finish` stores what has changed, and blocks the jobs that have to wait."""

    def __init__(self, context: SqliteContext, queue: str, busy: list[Busy]) -> None:
        self._context, self._queue, self._busy = context, queue, busy
        self._keys: dict[str, KeyState] = {}
        self._holders: list[tuple[str, str, int]] = []
        self._blocked: list[tuple[int, str]] = []
        self._lines: list[NotedLine] = []

    def load(self, rows: Iterable[Any]) -> None:
        """Read what is known of the keys of these candidates together. It only saves statements: a
        key that is not read here is read when it is needed."""
        counted: dict[str, bool] = {}
        for row in rows:
            rare = rare_fields(row)
            if rare is None:
                continue
            for gate in rare[GATES]:
                counted[gate.key] = counted.get(gate.key, False) or gate.limit is not None
            if rare[RESOURCE] is not None:
                counted[rare[RESOURCE]] = True
        for kind in (True, False):
            keys = [key for key in counted if counted[key] is kind and key not in self._keys]
            if len(keys) > 1:
                found = key_states.load_plain(self._context, self._queue, keys, counted=kind)
                self._keys.update(found)

    def admits(self, row: Any) -> bool:
        """Whether this candidate may run. If so, it has its keys from now on; if not, it was
        blocked or has ended."""
        rare = rare_fields(row)
        if rare is None:
            return True
        key, now = rare[RESOURCE], self._context.now
        if rare[GATES]:
            return self._passes_all(row, GatedRow(key, rare[LIMIT], rare[GATES]))
        if key is None:
            return True
        state = self._keys.get(key) or self._load(key)
        if state.stored is not None or not state.is_counted:
            return self._passes_all(row, GatedRow(key, rare[LIMIT], ()))
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

    def _passes_all(self, row: Any, job: GatedRow) -> bool:
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
            self._block()  # one of these may be replaced
            self._replace_others(id, key)
        if policy.ends:
            _end(context, [seq], busy=1)
            context.note(seq, policy.line, policy.note(key))
        else:
            self._blocked.append((seq, key))
            self._lines.append(NotedLine(seq, policy.line, policy.note(key)))

    def _block(self) -> None:
        """Block the jobs that have to wait so far."""
        if self._blocked:
            self._context.run_many("claim_block", self._blocked)
            self._context.note_many(self._lines)
            self._blocked, self._lines = [], []

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
        """Store the numbers of the rates, who has which key, and who waits."""
        self._block()
        rates = [
            key_states.rate_row(self._context, self._queue, state.rate, state.use, state.waited_for)
            for state in self._keys.values()
            if state.rate is not None
        ]
        self._context.run_many("key_rate", rates)
        if self._holders:
            self._context.run_many("key_hold_by", self._holders)


def _end(context: SqliteContext, seqs: list[int], *, busy: int) -> None:
    """Waiting jobs end without having run. `busy` is added to their counter."""
    unique.free_of_jobs(context, seqs)
    now, expires = context.now, context.now + BUSY_RETENTION
    context.run("claim_end", seqs=as_json(seqs), busy=busy, now=now, expires=expires)
