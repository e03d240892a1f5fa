"""Repeats: stored rules that make jobs."""

from msgspec.structs import replace

from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.ports.store import REPEATS
from mita.rules.schedule.spec import edited, switched

from .file import Content
from .jobs import enqueue


def put(content: Content, given: Repeat) -> Repeat:
    stored = content.repeats.get(given.key)
    over = (RepeatState.FINISHED, RepeatState.PARKED)
    if stored is not None and stored.spec == given.spec and stored.state not in over:
        return stored
    content.notify(REPEATS)
    new = content.repeats[given.key] = given if stored is None else edited(stored, given)
    return new


def switch(content: Content, key: str, source: RepeatState, reason: str = "") -> bool:
    repeat = content.repeats.get(key)
    if repeat is None or repeat.state is not source:
        return False
    content.repeats[key] = switched(repeat, reason)
    content.notify(REPEATS)
    return True


def report(content: Content, key: str, failed: bool) -> int:
    repeat = content.repeats.get(key)
    if repeat is None:
        return 0
    failures = repeat.failures + 1 if failed else 0
    content.repeats[key] = replace(repeat, failures=failures)
    return failures


def due(content: Content, limit: int) -> DueRepeats:
    active = [
        (repeat.cursor, repeat.key)
        for repeat in content.repeats.values()
        if repeat.state is RepeatState.ACTIVE and repeat.cursor is not None
    ]
    active.sort()
    come = [key for cursor, key in active if cursor <= content.now][:limit]
    rest = active[len(come) :]
    return DueRepeats(
        content.now, [content.repeats[key] for key in come], rest[0][0] if rest else None
    )


def fire(content: Content, firing: Firing) -> bool:
    repeat = content.repeats.get(firing.key)
    if repeat is None or repeat.state is not RepeatState.ACTIVE:
        return False
    if (repeat.cursor, repeat.revision) != (firing.cursor, firing.revision):
        return False
    content.repeats[firing.key] = replace(
        repeat,
        cursor=firing.next,
        count=repeat.count + firing.fired,
        last=repeat.last if firing.last is None else firing.last,
        state=firing.state,
        reason=firing.reason,
    )
    for job in firing.jobs:
        enqueue(content, job)
    return True
