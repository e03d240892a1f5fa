"""What is known of some keys, read under their locks; and what changes when jobs pass them. The
rules are in `rules.gates`."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from mita.model.gate import Gate, StoredLimit
from mita.model.job import WhenBusy
from mita.model.time import Moment
from mita.rules import gates
from mita.rules.busy import BusyPolicy, busy_policy
from mita.stores.postgres.codec import Rows, stored_limit
from mita.stores.postgres.context import PostgresContext, Query, query
from mita.stores.postgres.server.arrays import flags, numbers, texts
from mita.stores.postgres.throughput.watermarks import ResourceKey

from .bounds import COUNTED_WAITERS, WOKEN_SHARE


class GatedJob(NamedTuple):
    """The parts of a job that decide whether it may start."""

    resource: str | None
    limit: int
    gates: tuple[Gate, ...]


class RateChange(NamedTuple):
    """What is to be stored of a key that has a rate."""

    use: gates.KeyUse
    gate: Gate
    wake_at: Moment | None


class KeyStates:
    """Keys that this transaction has locked."""

    def __init__(self, keys: Sequence[ResourceKey], rows: Rows) -> None:
        self.now: Moment = 0
        self._uses: dict[ResourceKey, gates.KeyUse] = {}
        self._limits: dict[ResourceKey, StoredLimit | None] = {}
        self._wakes: dict[ResourceKey, Moment | None] = {}  # as they are stored
        self._waited: set[ResourceKey] = set()  # keys at which jobs wait for the clock
        self._woken_together: dict[ResourceKey, int] = {}  # how many the clock wakes at once
        self._changed: dict[ResourceKey, RateChange] = {}
        self._returned = gates.ReturnedTokens(self.now)
        self.add(keys, rows)

    def add(self, keys: Sequence[ResourceKey], rows: Rows) -> None:
        """Add more keys that this transaction has locked."""
        for key, row in zip(keys, rows, strict=True):
            self.now = max(self.now, row[3])
            holders, held_until, _, _, tat_us, woken_us, limit, wake_at = row
            self._uses[key] = gates.KeyUse(holders, held_until, tat_us, woken_us)
            self._limits[key] = stored_limit(limit)
            self._wakes[key] = wake_at
            if wake_at is not None:
                self._waited.add(key)

    @property
    def keys(self) -> Collection[ResourceKey]:
        """The keys that this transaction has locked."""
        return self._uses.keys()

    @property
    def wakes(self) -> Mapping[ResourceKey, Moment | None]:
        """When the clock wakes the next job of each key, as it is stored."""
        return self._wakes

    @property
    def has_other_wakes(self) -> bool:
        """Whether the clock wakes a job at another time than is stored."""
        return any(change.wake_at != self._wakes[key] for key, change in self._changed.items())

    def gates_of(self, queue: str, job: gates.Gated) -> list[Gate]:
        """The gates of a job as they are in force."""
        return [
            gates.effective(gate, self._limits[queue, gate.key]) for gate in gates.gates_of(job)
        ]

    def gate_at(self, key: ResourceKey, job: gates.Gated) -> Gate:
        """The gate of this job that has this key, as it is in force."""
        found = [gate for gate in gates.gates_of(job) if gate.key == key[1]] or [Gate(key[1])]
        return gates.effective(found[0], self._limits[key])

    def admits(self, queue: str, resource: str, limit: int) -> bool | None:
        """Whether a job whose only key is this one starts now; then it holds the key. None if a
        limit is stored for the key: then its gates decide."""
        key = queue, resource
        if self._limits[key] is not None:
            return None
        use = self._uses[key]
        if use.held_until > self.now or use.holders >= limit:
            return False
        self._uses[key] = gates.KeyUse(use.holders + 1, use.held_until, use.tat_us, use.woken_us)
        return True

    def closed_gate(self, queue: str, all: Iterable[Gate]) -> Gate | None:
        """The first of these gates that is not open, or None."""
        return next(
            (gate for gate in all if not gates.is_open(gate, self._use(queue, gate), self.now)),
            None,
        )

    def _use(self, queue: str, gate: Gate) -> gates.KeyUse:
        """What is known of the key of a gate, with the numbers of its rate brought back."""
        key = queue, gate.key
        use = self._uses[key]
        bounded = gates.bounded(gate, use, self.now)
        if bounded is not use:
            self._change(key, gate, bounded)
        return bounded

    def pass_gates(self, queue: str, all: Iterable[Gate]) -> None:
        """A job starts: it holds all of these keys, and takes a token of each rate."""
        for gate in all:
            key = queue, gate.key
            use = gates.passed(gate, self._uses[key], self.now)
            self._uses[key] = use
            if gate.interval_us:
                self._change(key, gate, use)

    def block(self, queue: str, gate: Gate, when_busy: WhenBusy) -> BusyPolicy:
        """A job cannot pass this gate. Returns what it does."""
        use = self._use(queue, gate)
        policy = busy_policy(when_busy, gate, use, self.now)
        if gate.interval_us:
            if not policy.ends:
                self._waited.add((queue, gate.key))
            self._change((queue, gate.key), gate, use)
        return policy

    def wake(self, key: ResourceKey, job: gates.Gated, waiting: int, most: int | None) -> int:
        """How many of the jobs that wait at this key are woken: `waiting` of them were counted, and
        `job` is the first."""
        gate = self.gate_at(key, job)
        use = self._use(key[0], gate)
        woken = min(gates.to_wake(gate, use, self.now), waiting)
        woken = woken if most is None else min(woken, most)
        if gate.interval_us:
            if woken < waiting or waiting >= COUNTED_WAITERS:
                self._waited.add(key)
                self._woken_together[key] = min(gate.burst // WOKEN_SHARE, waiting - woken)
            else:
                self._waited.discard(key)
            self._change(key, gate, gates.after_waking(gate, use, self.now, woken))
        return woken

    def give_back(self, queue: str, job: gates.Gated, claimed: Moment) -> None:
        """A job did not start after all: it gives its tokens back."""
        for gate in self.gates_of(queue, job):
            use = self._uses[queue, gate.key]
            if gate.interval_us and (use.tat_us or use.woken_us):
                returned_us = self._returned.returned_us(gate, queue, gate.key, claimed)
                tat_us = gates.given_back(use.tat_us, returned_us)
                woken_us = gates.given_back(use.woken_us, returned_us)
                self._change(
                    (queue, gate.key), gate, replace(use, tat_us=tat_us, woken_us=woken_us)
                )

    def _change(self, key: ResourceKey, gate: Gate, use: gates.KeyUse) -> None:
        self._uses[key] = use
        wake_at = self._wake_at(key, gate, use) if key in self._waited else None
        self._changed[key] = RateChange(use, gate, wake_at)

    def _wake_at(self, key: ResourceKey, gate: Gate, use: gates.KeyUse) -> Moment | None:
        """When the clock wakes the next jobs; None if only a running job that ends can. At a key
        with a large burst some tokens come together, which costs one claim for all of them and
        loses none."""
        if gates.to_wake(gate, use, self.now):
            return self.now
        more = max(0, self._woken_together.get(key, 1) - 1)
        level_us = max(use.tat_us, use.woken_us) + more * gate.interval_us
        moment = gates.next_wake_at(gate, replace(use, woken_us=level_us), self.now)
        return moment if moment > self.now else None

    def store(self) -> Query | None:
        """Store the rates that have changed since the last call."""
        if not self._changed:
            return None
        keys, levels = list(self._changed), list(self._changed.values())
        self._wakes.update((key, change.wake_at) for key, change in self._changed.items())
        self._changed.clear()
        return query(
            "key_levels",
            **key_columns(keys),
            tats=numbers(level.use.tat_us for level in levels),
            wokens=numbers(level.use.woken_us for level in levels),
            intervals=numbers(level.gate.interval_us for level in levels),
            bursts=numbers(level.gate.burst for level in levels),
            wakes=numbers(level.wake_at for level in levels),
        )


def key_columns(keys: Sequence[ResourceKey]) -> dict[str, str]:
    """The arrays `queues` and `keys` of a statement."""
    return {"queues": texts([queue for queue, _ in keys]), "keys": texts([key for _, key in keys])}


def read_states(
    context: PostgresContext, keys: Sequence[ResourceKey], counted: Iterable[bool]
) -> Query:
    """What `KeyStates` needs. `counted`: whether the holders of a key are needed even if no limit
    is stored for it."""
    return query(
        "key_state",
        **key_columns(keys),
        watermarks=numbers(context.watermarks.of_keys(keys)),
        counted=flags(counted),
    )
