"""Which jobs may start: resource keys, rates and limited queues.

A rate is one number per key, as in the generic cell rate algorithm. `tat_us` is the time at which
the next start would come if all starts were spaced evenly. A start is allowed while that is at most
`(burst - 1)` intervals ahead, and moves it by one interval. So in any time T there are at most
`T / interval + burst` starts.

Jobs that find no token wait at the key. `woken_us` is the same number with the jobs that were woken
and have not started yet. So a key wakes as many jobs as there are tokens, and never more. The token
itself is taken at the start.

Neither number is ever more than `burst` intervals ahead. If it is, the rate was slower before, or
the clock was set back. Then `bounded` brings it back, so that a new rate has a token after one of
its intervals. A store that reads the numbers of a key for a gate calls it, and stores what changed.

Times are those of the store's clock. Redis decides the same in Lua (`lua/include/gates.lua`).
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from mita.model.gate import MOST_HOLDERS, Gate, StoredLimit
from mita.model.time import Moment

ONE_MS_US = 1000


class Gated(Protocol):
    """A job, or a row of one: what `gates_of` needs to know."""

    @property
    def resource(self) -> str | None: ...
    @property
    def limit(self) -> int: ...
    @property
    def gates(self) -> tuple[Gate, ...]: ...


class KeyUse(Struct, frozen=True, gc=False):
    """What a store knows of a key: how many running jobs have it, until when it is on hold, and the
    two numbers of its rate. A key of which nothing is stored has all of them at 0."""

    holders: int = 0
    held_until: Moment = 0
    tat_us: int = 0
    woken_us: int = 0


NOT_USED = KeyUse()


def gates_of(job: Gated) -> tuple[Gate, ...]:
    """All gates of a job, in the order in which they are tried. A key that is named twice is one
    gate with both conditions."""
    if not job.gates:
        return () if job.resource is None else (Gate(job.resource, job.limit),)
    merged: dict[str, Gate] = {}
    if job.resource is not None:
        merged[job.resource] = Gate(job.resource, job.limit)
    for gate in job.gates:
        other = merged.get(gate.key)
        merged[gate.key] = gate if other is None else _merged(other, gate)
    return tuple(merged.values())


def _merged(one: Gate, other: Gate) -> Gate:
    limits = [limit for limit in (one.limit, other.limit) if limit is not None]
    rate = one if one.interval_us else other
    return Gate(one.key, min(limits, default=None), rate.interval_us, rate.burst)


def keys_of(resource: str | None, gates: Sequence[Gate]) -> tuple[str, ...]:
    """The keys of all gates of a job, each once."""
    if not gates:
        return () if resource is None else (resource,)
    first = () if resource is None else (resource,)
    return tuple(dict.fromkeys((*first, *(gate.key for gate in gates))))


def effective(gate: Gate, stored: StoredLimit | None) -> Gate:
    """The gate as it is in force: what an operator has set replaces what the job says. A limit of 0
    is returned as 0, which no job may have."""
    if stored is None:
        return gate
    limit = gate.limit if stored.concurrency is None else stored.concurrency
    if not stored.interval_us:
        return replace(gate, limit=limit)
    return Gate(gate.key, limit, stored.interval_us, stored.burst)


def is_open(gate: Gate, use: KeyUse, now: Moment) -> bool:
    """Whether one more job may pass this gate now."""
    return (
        use.held_until <= now
        and (gate.limit is None or use.holders < gate.limit)
        and (not gate.interval_us or tokens(gate, use.tat_us, now) > 0)
    )


def tokens(gate: Gate | StoredLimit, level_us: int, now: Moment) -> int:
    """How many starts this rate allows now, if `level_us` is its `tat_us` (or `woken_us`)."""
    ahead_us = max(level_us - now * ONE_MS_US, 0)
    return max(0, gate.burst - -(-ahead_us // gate.interval_us))


def tokens_left(limit: StoredLimit | None, level_us: int, now: Moment) -> int | None:
    """How many starts the rate of a limited queue allows now; None if it has no rate."""
    return None if limit is None or not limit.interval_us else tokens(limit, level_us, now)


def bounded_level(gate: Gate | StoredLimit, level_us: int, now: Moment) -> int:
    """The number of a rate, brought back to `burst` intervals ahead if it is more."""
    return min(level_us, now * ONE_MS_US + gate.burst * gate.interval_us)


def bounded(gate: Gate, use: KeyUse, now: Moment) -> KeyUse:
    """The key with both numbers of its rate brought back; the same object if nothing changes."""
    if not gate.interval_us:
        return use
    most_us = now * ONE_MS_US + gate.burst * gate.interval_us
    if max(use.tat_us, use.woken_us) <= most_us:
        return use
    return replace(use, tat_us=min(use.tat_us, most_us), woken_us=min(use.woken_us, most_us))


def passed(gate: Gate, use: KeyUse, now: Moment) -> KeyUse:
    """The key after one more job has passed its gate."""
    tat_us = after_starts(gate, use.tat_us, now, 1)
    return replace(use, holders=use.holders + 1, tat_us=tat_us, woken_us=max(use.woken_us, tat_us))


def after_starts(gate: Gate | StoredLimit, level_us: int, now: Moment, starts: int) -> int:
    """The number of a rate after these starts."""
    if not gate.interval_us or not starts:
        return level_us
    return max(level_us, now * ONE_MS_US) + starts * gate.interval_us


class ReturnedTokens:
    """The tokens that one call gives back for starts that did not happen.

    Time gives a token back too. So that no token comes back twice, starts that were claimed at one
    time give back their intervals less the time since then. Then a rate is never ahead of what it
    would be without these claims."""

    __slots__ = ("_late_us", "_now")

    def __init__(self, now: Moment) -> None:
        self._now = now
        self._late_us: dict[tuple[str, str | None, Moment], int] = {}

    def returned_us(
        self, rate: Gate | StoredLimit, queue: str, key: str | None, claimed: Moment
    ) -> int:
        """By how much one start less moves the number of this rate back. `key` is None for the rate
        of the queue, and `claimed` is when the start was claimed."""
        which = queue, key, claimed
        late_us = self._late_us.get(which, max(0, self._now - claimed) * ONE_MS_US)
        self._late_us[which] = max(0, late_us - rate.interval_us)
        return max(0, rate.interval_us - late_us)


def given_back(level_us: int, returned_us: int) -> int:
    """The number of a rate after a start that did not happen."""
    return max(0, level_us - returned_us)


def to_wake(gate: Gate, use: KeyUse, now: Moment) -> int:
    """How many of the jobs that wait at this key may be woken now."""
    if use.held_until > now:
        return 0
    free = MOST_HOLDERS if gate.limit is None else max(0, gate.limit - use.holders)
    if not gate.interval_us:
        return free
    return min(free, tokens(gate, max(use.tat_us, use.woken_us), now))


def after_waking(gate: Gate, use: KeyUse, now: Moment, woken: int) -> KeyUse:
    """The key after so many waiting jobs were woken."""
    level_us = max(use.tat_us, use.woken_us)
    return replace(use, woken_us=after_starts(gate, level_us, now, woken))


def next_token_at(gate: Gate | StoredLimit, level_us: int, now: Moment) -> Moment:
    """When a rate at this level allows its next start: a whole millisecond, never too early, and
    `now` if it has tokens."""
    wait_us = level_us - now * ONE_MS_US - (gate.burst - 1) * gate.interval_us
    return now + max(0, -(-wait_us // ONE_MS_US))


def next_wake_at(gate: Gate, use: KeyUse, now: Moment) -> Moment:
    """When the next job that waits at this key may be woken by the clock: at the end of a hold, or
    when its rate has a token."""
    if not gate.interval_us:
        return use.held_until
    return max(use.held_until, next_token_at(gate, max(use.tat_us, use.woken_us), now))


def places(limit: StoredLimit, running: int, tat_us: int, now: Moment) -> int:
    """How many more jobs of a limited queue may start now."""
    free = MOST_HOLDERS if limit.concurrency is None else max(0, limit.concurrency - running)
    return min(free, tokens(limit, tat_us, now)) if limit.interval_us else free
