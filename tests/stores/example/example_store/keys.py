"""Keys: which jobs may start, which wait, and which job has a unique key."""

from collections.abc import Collection

from msgspec.structs import replace

from mita.model.gate import MOST_HOLDERS, Gate, StoredLimit
from mita.model.job import Job, State
from mita.model.time import Moment, Wait
from mita.rules import gates
from mita.rules.gates import KeyUse
from mita.rules.states import TERMINAL

from .file import Content, Key, Level, Until

# ---------------------------------------------------------------- gates


def is_on_hold(content: Content, key: Key) -> bool:
    return content.holds.get(key, content.now) > content.now


def gates_of(content: Content, job: Job) -> list[Gate]:
    """The gates of a job; what an operator has set for a key replaces what the job says."""
    limits = content.limits
    return [
        gates.effective(gate, limits.get((job.queue, gate.key))) for gate in gates.gates_of(job)
    ]


def use_of(content: Content, queue: str, gate: Gate) -> KeyUse:
    """What is known of the key of a gate."""
    key = queue, gate.key
    level = content.levels.get(key, Level())
    holders, held_until = len(content.holders(key)), content.holds.get(key, 0)
    found = KeyUse(holders, held_until, level.tat_us, level.woken_us)
    use = gates.bounded(gate, found, content.now)
    if use is not found:
        set_level(content, queue, gate, use)
    return use


def set_level(content: Content, queue: str, gate: Gate, use: KeyUse) -> None:
    """Store the numbers of the key's rate, if the gate has one."""
    if gate.interval_us:
        level = Level(use.tat_us, use.woken_us, gate.interval_us, gate.burst)
        content.levels[queue, gate.key] = level


def closed_gate(content: Content, job: Job) -> Gate | None:
    """The first gate that the job cannot pass now; None: it may start."""
    for gate in gates_of(content, job):
        if not gates.is_open(gate, use_of(content, job.queue, gate), content.now):
            return gate
    return None


def places(content: Content, queue: str) -> int:
    """How many more jobs of this queue may start now."""
    limit, level = content.limits.get((queue, None)), content.levels.get((queue, None), Level())
    if limit is None:
        return MOST_HOLDERS
    return gates.places(limit, len(content.holders((queue, None))), level.tat_us, content.now)


def take_tokens(content: Content, job: Job) -> None:
    """The job starts: each of its rates, and that of its queue, has one token less."""
    for gate in gates_of(content, job):
        use = gates.passed(gate, use_of(content, job.queue, gate), content.now)
        set_level(content, job.queue, gate, use)
    queue = job.queue, None
    if limit := content.limits.get(queue):
        tat_us = content.levels.get(queue, Level()).tat_us
        content.levels[queue] = Level(gates.after_starts(limit, tat_us, content.now, 1))


def give_tokens_back(content: Content, job: Job) -> None:
    """The job was claimed, but its handler was not started."""
    rates: dict[Key, Gate | StoredLimit | None]
    rates = {(job.queue, gate.key): gate for gate in gates_of(content, job)}
    rates[job.queue, None] = content.limits.get((job.queue, None))
    returned = gates.ReturnedTokens(content.now)
    for key, rate in rates.items():
        level = content.levels.get(key)
        if rate is not None and rate.interval_us and level is not None:
            returned_us = returned.returned_us(rate, *key, job.started or content.now)
            tat_us = gates.given_back(level.tat_us, returned_us)
            woken_us = gates.given_back(level.woken_us, returned_us)
            content.levels[key] = replace(level, tat_us=tat_us, woken_us=woken_us)


# ---------------------------------------------------------------- jobs that wait at a key


def wake(content: Content, key: Key, most: int = MOST_HOLDERS) -> None:
    """Put jobs that wait at this key back into the queue: as many as may start, by the gate of the
    first of them, but at most `most`."""
    waiting = content.waiting(key)
    if not waiting:
        return
    gate, use = gate_at(content, key, waiting[0].job)
    woken = waiting[: min(most, gates.to_wake(gate, use, content.now))]
    set_level(content, key[0], gate, gates.after_waking(gate, use, content.now, len(woken)))
    for record in woken:
        record.change(state=State.QUEUED, blocked_at=None)
        content.notify(key[0])


def gate_at(content: Content, key: Key, job: Job) -> tuple[Gate, KeyUse]:
    """The gate of this job that has this key, and what is known of it."""
    gate = next(gate for gate in gates_of(content, job) if gate.key == key[1])
    return gate, use_of(content, key[0], gate)


def next_wake_at(content: Content, key: Key) -> Moment:
    """When the clock wakes the next job that waits at this key, if that is in the future."""
    gate, use = gate_at(content, key, content.waiting(key)[0].job)
    return gates.next_wake_at(gate, use, content.now)


def wake_all(content: Content) -> None:
    for key in content.waited_for():
        wake(content, key)


def hold(content: Content, key: Key, until: Moment) -> None:
    """Start no job with this key before `until`. A point in time that is over ends the hold."""
    content.notify(key[0])
    content.holds[key] = until
    if until <= content.now:
        end_hold(content, key)


def end_hold(content: Content, key: Key) -> None:
    del content.holds[key]
    wake(content, key)


def open_keys(content: Content, queues: Collection[str]) -> None:
    """End the holds that are over, and wake the jobs whose rate has tokens again."""
    for key in [key for key, until in content.holds.items() if until <= content.now]:
        if key[0] in queues:
            end_hold(content, key)
    for key in content.waited_for() & content.levels.keys():
        if key[0] in queues:
            wake(content, key)


def set_limit(content: Content, key: Key, limit: StoredLimit | None) -> None:
    """Set or remove the limit of a key or (None) of a queue, and wake what may start now."""
    content.queues.setdefault(key[0], None)
    content.notify(key[0])
    content.limits.pop(key, None)
    if limit is not None:
        content.limits[key] = limit
    level = content.levels.pop(key, None)
    if level is not None and key[1] is not None:
        content.levels[key] = replace(level, woken_us=level.tat_us)  # nobody was woken by this one
    elif level is not None and limit is not None and limit.interval_us:
        content.levels[key] = Level(gates.bounded_level(limit, level.tat_us, content.now))
    wake(content, key)


# ---------------------------------------------------------------- unique keys


def unique_owner(content: Content, queue: str, key: str | None) -> str | None:
    """The id of the job that has this unique key now."""
    found = content.unique.get((queue, key)) if key is not None else None
    if found is None:
        return None
    if found.until is not None:
        return str(found.value) if found.until > content.now else None
    record = content.records.get(found.value)
    return None if record is None or record.job.state in TERMINAL else record.job.id


def take_unique(content: Content, job: Job, throttle: Wait = 0) -> None:
    """The key belongs to this job: until it ends, or for `throttle` from now."""
    if job.unique is not None:
        until = content.now + throttle if throttle else None
        content.unique[job.queue, job.unique] = Until(job.id, until)


def end_unique(content: Content, job: Job) -> None:
    """The job has ended: its key is free, or will be after `unique_for`. A key that another job
    has taken over, or that a throttle keeps, stays as it is."""
    key = job.queue, job.unique
    if content.unique.get(key) != Until(job.id):
        return
    if job.unique_for > 0:
        content.unique[key] = Until(job.id, content.now + job.unique_for)
    else:
        del content.unique[key]


def give_up_unique(content: Content, job: Job) -> None:
    """The job is deleted: a key that it still has is free at once."""
    if job.unique is not None and unique_owner(content, job.queue, job.unique) == job.id:
        del content.unique[job.queue, job.unique]
