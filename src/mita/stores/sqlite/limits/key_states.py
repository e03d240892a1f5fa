"""What the file knows of keys. The rules are in `rules.gates`.

Most keys have no record: their running jobs are counted by an index. A key has a record in
`_mita_key` if it has a rate or a stored limit."""

from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mita.model.gate import Gate, StoredLimit
from mita.model.time import Moment
from mita.rules import gates
from mita.rules.gates import KeyUse
from mita.rules.readable import BAD
from mita.stores.sqlite.codec import NO_GATES
from mita.stores.sqlite.context import SqliteContext, as_json

_read_limit = msgspec.json.Decoder(StoredLimit).decode
_read_gates = msgspec.json.Decoder(tuple[Gate, ...]).decode
# a row of `key_states`
_Found: TypeAlias = tuple[str, int, int | None, int, int | None, int | None, int | None, int]
_read_states = msgspec.json.Decoder(list[_Found]).decode
_to_json = msgspec.json.Encoder().encode
LARGEST_US = 2**62  # a larger number was not written by Mita


class KeyState(Struct):
    """One key in one transaction. `waited_for`: jobs wait at it, and the clock wakes the next
    of them at `wake_at`. `rate` is the gate whose numbers have changed; None: there is nothing to
    store. `is_counted`: `use` has all running jobs that have the key."""

    use: KeyUse
    is_counted: bool
    stored: StoredLimit | None = None
    waited_for: bool = False
    wake_at: Moment | None = None
    rate: Gate | None = None


def as_limit(text: Any) -> StoredLimit | None:
    """The limit that an operator has set; None if there is none, or it cannot be read."""
    try:
        return None if text is None else _read_limit(text)
    except BAD:
        return None


def limit_text(limit: StoredLimit | None) -> str | None:
    """A limit as the file has it."""
    return None if limit is None else _to_json(limit).decode()


def as_number_us(found: Any) -> int:
    """The number of a rate; 0 if it cannot be read."""
    return found if isinstance(found, int) and 0 <= found <= LARGEST_US else 0


def read_gates(text: str) -> tuple[Gate, ...]:
    """The gates of a job. Raises if they cannot be read: see `maintenance.set_aside`."""
    return () if text == NO_GATES else _read_gates(text)


def load(context: SqliteContext, queue: str, key: str, *, counted: bool) -> KeyState:
    """What is known of a key. Only a gate with a limit needs its running jobs to be `counted`."""
    holders, until, has_record, tat_us, woken_us, stored, wake_at, waited_for = context.row(
        "key_state", queue=queue, key=key, counted=counted
    )
    if not has_record:
        return KeyState(KeyUse(holders, until or 0), counted)
    use = KeyUse(holders, until or 0, as_number_us(tat_us), as_number_us(woken_us))
    clock = wake_at if isinstance(wake_at, int) else None
    return KeyState(use, counted, as_limit(stored), bool(waited_for), clock)


def load_plain(
    context: SqliteContext, queue: str, keys: Iterable[str], *, counted: bool
) -> dict[str, KeyState]:
    """The same as `load` for several keys together, without those that have a stored limit."""
    text = context.value("key_states", queue=queue, keys=as_json(keys), counted=counted)
    states: dict[str, KeyState] = {}
    for key, holders, until, has_record, tat_us, woken_us, wake_at, waited_for in _read_states(
        text
    ):
        if has_record:
            use = KeyUse(holders, until or 0, as_number_us(tat_us), as_number_us(woken_us))
            states[key] = KeyState(use, counted, None, bool(waited_for), wake_at)
        else:
            states[key] = KeyState(KeyUse(holders, until or 0), counted)
    return states


def gate_in_force(context: SqliteContext, queue: str, declared: Gate, state: KeyState) -> Gate:
    """The gate with what an operator has set for its key. If that needs the running jobs that have
    the key, they are counted."""
    gate = gates.effective(declared, state.stored)
    if gate.limit is not None and not state.is_counted:
        counted = context.value("key_count", queue=queue, key=gate.key)
        state.use = replace(state.use, holders=counted + state.use.holders)
        state.is_counted = True
    return gate


def store_rate(
    context: SqliteContext, queue: str, gate: Gate, use: KeyUse, *, waited_for: bool
) -> None:
    """Store the numbers of a key's rate, and when its next waiting job may be woken."""
    context.run_many("key_rate", [rate_row(context, queue, gate, use, waited_for)])


def rate_row(
    context: SqliteContext, queue: str, gate: Gate, use: KeyUse, waited_for: bool
) -> tuple[Any, ...]:
    """A row of `key_rate`: the numbers of a key's rate, and when its next job may be woken."""
    wake_at = _wake_at(gate, use, context.now) if waited_for else None
    return queue, gate.key, use.tat_us, use.woken_us, gate.interval_us, gate.burst, wake_at


def _wake_at(gate: Gate, use: KeyUse, now: Moment) -> Moment | None:
    """When the clock may wake the next job at this key; None if only a run that ends can."""
    moment = gates.next_wake_at(gate, use, now)
    is_full = gate.limit is not None and use.holders >= gate.limit
    return None if moment <= now and is_full else max(moment, now)
