"""Stored rules that make jobs."""

from msgspec.structs import replace

from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import Wait
from mita.ports.store import REPEATS
from mita.rules.schedule.spec import edited

from .context import Act, LockHeld
from .enqueue import enqueue

OVER = {RepeatState.FINISHED, RepeatState.PARKED}


def put(act: Act, given: Repeat) -> Repeat:
    stored = act.state.repeats.get(given.key)
    if stored is not None and stored.spec == given.spec and stored.state not in OVER:
        return stored
    act.rings.add(REPEATS)
    if stored is None:
        act.state.repeats[given.key] = given
        return given
    act.state.repeats[given.key] = new = edited(stored, given)
    return new


def remove(act: Act, key: str) -> bool:
    act.rings.add(REPEATS)
    return act.state.repeats.pop(key, None) is not None


def switch(act: Act, key: str, source: RepeatState, target: RepeatState) -> bool:
    """Pause or resume, if it stands where that makes sense."""
    repeat = act.state.repeats.get(key)
    if repeat is None or repeat.state is not source:
        return False
    act.state.repeats[key] = replace(repeat, state=target)
    act.rings.add(REPEATS)
    return True


def due(act: Act, limit: int) -> DueRepeats:
    cursors = sorted(
        (repeat.cursor, repeat.key)
        for repeat in act.state.repeats.values()
        if repeat.state is RepeatState.ACTIVE and repeat.cursor is not None
    )
    come = [key for cursor, key in cursors if cursor <= act.now][:limit]
    rest = cursors[len(come) :]
    return DueRepeats(
        act.now, [act.state.repeats[key] for key in come], rest[0][0] if rest else None
    )


def fire(act: Act, firing: Firing) -> bool:
    repeat = act.state.repeats.get(firing.key)
    if repeat is None or repeat.state is not RepeatState.ACTIVE:
        return False
    if (repeat.cursor, repeat.revision) != (firing.cursor, firing.revision):
        return False
    act.state.repeats[firing.key] = replace(
        repeat,
        cursor=firing.next,
        count=repeat.count + firing.fired,
        last=repeat.last if firing.last is None else firing.last,
        state=firing.state,
        reason=firing.reason,
    )
    for job in firing.jobs:
        enqueue(act, job)
    return True


def lock(act: Act, name: str, holder: str, keep: Wait) -> bool:
    held = act.state.locks.get(name)
    if held is not None and held.holder != holder and held.until > act.now:
        return False
    act.state.locks[name] = LockHeld(holder, act.now + keep)
    return True


def unlock(act: Act, name: str, holder: str) -> None:
    held = act.state.locks.get(name)
    if held is not None and held.holder == holder:
        del act.state.locks[name]
        act.rings.add(REPEATS)
