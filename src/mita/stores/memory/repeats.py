"""Repeats, and the locks by which schedulers agree who fires them."""

from collections.abc import Sequence

from msgspec.structs import replace

from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import Wait
from mita.ports.store import REPEATS
from mita.rules.schedule.spec import edited, switched

from .context import MemoryContext
from .enqueue import enqueue
from .state.memory_state import LockHolder

OVER = {RepeatState.FINISHED, RepeatState.PARKED}


def put_repeat(context: MemoryContext, repeat: Repeat) -> Repeat:
    """Insert or edit a repeat. Returns it as it is stored now."""
    repeats = context.state.repeats
    stored = repeats.get(repeat.key)
    if stored is not None and stored.spec == repeat.spec and stored.state not in OVER:
        return stored
    context.topics.add(REPEATS)
    repeats[repeat.key] = new = repeat if stored is None else edited(stored, repeat)
    return new


def remove_repeats(context: MemoryContext, keys: Sequence[str]) -> list[bool]:
    """Delete repeats. False: there is no such repeat."""
    context.topics.add(REPEATS)
    return [context.state.repeats.pop(key, None) is not None for key in keys]


def pause_repeats(context: MemoryContext, keys: Sequence[str], reason: str = "") -> list[bool]:
    """Pause active repeats. False: there is no such repeat, or it is not active."""
    return [_switch(context, key, RepeatState.ACTIVE, reason) for key in keys]


def resume_repeats(context: MemoryContext, keys: Sequence[str]) -> list[bool]:
    """Resume paused repeats. False: there is no such repeat, or it is not paused."""
    return [_switch(context, key, RepeatState.PAUSED) for key in keys]


def _switch(context: MemoryContext, key: str, source: RepeatState, reason: str = "") -> bool:
    repeat = context.state.repeats.get(key)
    if repeat is None or repeat.state is not source:
        return False
    context.state.repeats[key] = switched(repeat, reason)
    context.topics.add(REPEATS)
    return True


def report_repeat(context: MemoryContext, key: str, failed: bool) -> int:
    """Count a job that ended. Returns how many failures in a row there are now."""
    repeat = context.state.repeats.get(key)
    if repeat is None:
        return 0
    failures = repeat.failures + 1 if failed else 0
    context.state.repeats[key] = replace(repeat, failures=failures)
    return failures


def due_repeats(context: MemoryContext, limit: int) -> DueRepeats:
    """Repeats whose fire time has come, the earliest first, and the next fire time after them."""
    repeats, now = context.state.repeats, context.now
    cursors = sorted(
        (repeat.cursor, repeat.key)
        for repeat in repeats.values()
        if repeat.state is RepeatState.ACTIVE and repeat.cursor is not None
    )
    due = [key for cursor, key in cursors if cursor <= now][:limit]
    rest = cursors[len(due) :]
    return DueRepeats(now, [repeats[key] for key in due], rest[0][0] if rest else None)


def fire(context: MemoryContext, firings: Sequence[Firing]) -> list[bool]:
    """Apply firings whose repeats are unchanged, and enqueue their jobs."""
    return [fire_one(context, firing) for firing in firings]


def fire_one(context: MemoryContext, firing: Firing) -> bool:
    """Apply one firing, if its repeat is active and unchanged."""
    repeat = context.state.repeats.get(firing.key)
    if repeat is None or repeat.state is not RepeatState.ACTIVE:
        return False
    if (repeat.cursor, repeat.revision) != (firing.cursor, firing.revision):
        return False
    context.state.repeats[firing.key] = replace(
        repeat,
        cursor=firing.next,
        count=repeat.count + firing.fired,
        last=repeat.last if firing.last is None else firing.last,
        state=firing.state,
        reason=firing.reason,
    )
    enqueue(context, firing.jobs)
    return True


def list_repeats(context: MemoryContext) -> list[Repeat]:
    """All repeats, by key."""
    return [context.state.repeats[key] for key in sorted(context.state.repeats)]


def find_repeats(context: MemoryContext, keys: Sequence[str]) -> list[Repeat | None]:
    """The repeats with these keys; None where there is none."""
    return [context.state.repeats.get(key) for key in keys]


def lock(context: MemoryContext, name: str, holder: str, keep: Wait) -> bool:
    """Take or extend a lock. False: another holder has it."""
    found = context.state.locks.get(name)
    if found is not None and found.holder != holder and found.until > context.now:
        return False
    context.state.locks[name] = LockHolder(holder, context.now + keep)
    return True


def unlock(context: MemoryContext, name: str, holder: str) -> None:
    """Release a lock, if this holder has it."""
    found = context.state.locks.get(name)
    if found is not None and found.holder == holder:
        del context.state.locks[name]
        context.topics.add(REPEATS)
