"""Keys: which jobs may start, which wait, and which are woken. The rules are in `rules.gates`."""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from mita.model.gate import Gate, StoredLimit
from mita.model.job import Job, State
from mita.model.time import Moment
from mita.rules import gates

from .context import MemoryContext
from .state.index import ResourceKey
from .state.memory_state import RateLevel


def on_hold(context: MemoryContext, key: ResourceKey) -> bool:
    """Whether no job with this key may start now."""
    return context.state.holds.get(key, context.now) > context.now


def use_of(context: MemoryContext, key: ResourceKey) -> gates.KeyUse:
    """What is known of a key."""
    state = context.state
    level = state.rates.get(key, RateLevel())
    return gates.KeyUse(
        len(state.index.holders(key)), state.holds.get(key, 0), level.tat_us, level.woken_us
    )


def bounded_use(context: MemoryContext, queue: str, gate: Gate) -> gates.KeyUse:
    """What is known of the key of a gate, with the numbers of its rate brought back."""
    key = queue, gate.key
    found = use_of(context, key)
    use = gates.bounded(gate, found, context.now)
    if use is not found:
        set_level(context, key, gate, use)
    return use


def gates_of(context: MemoryContext, job: Job) -> list[Gate]:
    """The gates of a job as they are in force."""
    limits = context.state.limits
    return [
        gates.effective(gate, limits.get((job.queue, gate.key))) for gate in gates.gates_of(job)
    ]


def closed_gate(context: MemoryContext, job: Job) -> Gate | None:
    """The first gate that this job cannot pass now, or None if it may start."""
    for gate in gates_of(context, job):
        if not gates.is_open(gate, bounded_use(context, job.queue, gate), context.now):
            return gate
    return None


def pass_gates(context: MemoryContext, job: Job) -> None:
    """The job starts: take a token of each rate. The index counts who holds a key."""
    for gate in gates_of(context, job):
        key = job.queue, gate.key
        if gate.interval_us:
            set_level(context, key, gate, gates.passed(gate, use_of(context, key), context.now))


def set_level(context: MemoryContext, key: ResourceKey, gate: Gate, use: gates.KeyUse) -> None:
    """Store the two numbers of a key's rate."""
    level = RateLevel(use.tat_us, use.woken_us, gate.interval_us, gate.burst)
    context.state.rates[key] = level


def give_back(context: MemoryContext, job: Job) -> None:
    """The job was not started after all: give the tokens back, also that of its queue."""
    state, queue, claimed = context.state, job.queue, job.started or context.now
    for gate in gates_of(context, job):
        level = state.rates.get((queue, gate.key))
        if gate.interval_us and level is not None:
            returned_us = context.returned.returned_us(gate, queue, gate.key, claimed)
            tat_us = gates.given_back(level.tat_us, returned_us)
            woken_us = gates.given_back(level.woken_us, returned_us)
            level = replace(level, tat_us=tat_us, woken_us=woken_us)
            state.rates[queue, gate.key] = level
    limit = state.queue_limits.get(queue)
    if limit is not None and limit.interval_us and queue in state.queue_levels:
        returned_us = context.returned.returned_us(limit, queue, None, claimed)
        state.queue_levels[queue] = gates.given_back(state.queue_levels[queue], returned_us)


def wake(context: MemoryContext, key: ResourceKey, at_most: int | None = None) -> None:
    """Return the first jobs that wait at a key to the queue: as many as may start, by the gate of
    the first of them."""
    state = context.state
    waiting = [state.records[id] for id in state.index.blocked(key)]
    if not waiting:
        return
    gate = first_gate(context, key, waiting[0].job)
    use = bounded_use(context, key[0], gate)
    free = min(gates.to_wake(gate, use, context.now), len(waiting))
    woken = free if at_most is None else min(free, at_most)
    if gate.interval_us:
        set_level(context, key, gate, gates.after_waking(gate, use, context.now, woken))
    for record in waiting[:woken]:
        context.change(record, state=State.QUEUED, blocked_at=None)
        context.topics.add(key[0])


def first_gate(context: MemoryContext, key: ResourceKey, job: Job) -> Gate:
    """The gate of this job that has this key."""
    return next(gate for gate in gates_of(context, job) if gate.key == key[1])


def next_wake_at(context: MemoryContext, key: ResourceKey) -> Moment | None:
    """When the clock may wake the next job that waits at this key; None if only a running job that
    ends can."""
    waiting = context.state.index.blocked(key)
    if not waiting:
        return None
    gate = first_gate(context, key, context.state.records[waiting[0]].job)
    moment = gates.next_wake_at(gate, use_of(context, key), context.now)
    return moment if moment > context.now else None


def free_keys_of(context: MemoryContext, queue: str, keys: Sequence[str]) -> None:
    """A job with these keys has stopped running: each key wakes one job."""
    for key in keys:
        wake(context, (queue, key), at_most=1)


def hold_key(context: MemoryContext, key: ResourceKey, until: Moment) -> None:
    """No job with this key starts before `until`. A point in time that is not in the future lifts
    the hold."""
    context.topics.add(key[0])  # workers wait until the end of a hold, which has changed
    context.state.holds[key] = until
    if until <= context.now:
        _end_hold(context, key)


def _end_hold(context: MemoryContext, key: ResourceKey) -> None:
    del context.state.holds[key]
    wake(context, key)


def open_keys(context: MemoryContext, queues: Collection[str] | None = None) -> None:
    """Delete the holds that are over, and wake the jobs whose rate has tokens again, in these
    queues or in all (None)."""
    over = [key for key, until in context.state.holds.items() if until <= context.now]
    for key in over:
        if queues is None or key[0] in queues:
            _end_hold(context, key)
    for key in context.state.index.waited_for():
        if key in context.state.rates and (queues is None or key[0] in queues):
            wake(context, key)


def free_keys(context: MemoryContext) -> None:
    """Take the keys from jobs that do not run, and wake the jobs that wait for a free key."""
    index = context.state.index
    for key in index.held():
        for id in [id for id in index.holders(key) if not _runs(context, id)]:
            index.remove_holder(key, id)
    for key in index.waited_for():
        wake(context, key)


def _runs(context: MemoryContext, id: str) -> bool:
    record = context.state.records.get(id)
    return record is not None and record.job.state is State.RUNNING


def limit_key(context: MemoryContext, key: ResourceKey, limit: StoredLimit | None) -> None:
    """Set or remove the limit of a key, and wake the jobs that may start now."""
    state = context.state
    if limit is None:
        state.limits.pop(key, None)
    else:
        state.limits[key] = limit
    if key in state.rates:  # jobs that were woken under the old limit are counted by the new one
        state.rates[key] = replace(state.rates[key], woken_us=state.rates[key].tat_us)
    wake(context, key)
    context.topics.add(key[0])


def limit_queue(context: MemoryContext, queue: str, limit: StoredLimit | None) -> None:
    """Set or remove the limit of a queue."""
    state = context.state
    if limit is None or not limit.interval_us:
        state.queue_levels.pop(queue, None)
    elif queue in state.queue_levels:
        level_us = state.queue_levels[queue]
        state.queue_levels[queue] = gates.bounded_level(limit, level_us, context.now)
    if limit is None:
        state.queue_limits.pop(queue, None)
    else:
        state.queue_limits[queue] = limit
    context.topics.add(queue)
