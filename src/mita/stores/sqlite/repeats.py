"""Repeats, and the locks by which schedulers agree who fires them."""

from collections.abc import Sequence

from msgspec import to_builtins

from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import Moment, Wait
from mita.ports.store import REPEATS
from mita.rules.readable import is_lost
from mita.rules.schedule.spec import edited

from .codec import to_repeat
from .context import SqliteContext
from .enqueue import enqueue


def put_repeat(context: SqliteContext, repeat: Repeat) -> Repeat:
    """Insert or edit a repeat. Returns it as it is stored now."""
    found = context.row("find_repeats", key=repeat.key)
    if found is not None:
        old = to_repeat(found)
        if old.spec == repeat.spec and old.state in (RepeatState.ACTIVE, RepeatState.PAUSED):
            return old
        repeat = edited(old, repeat)
    context.topics.add(REPEATS)
    context.run("put_repeat", **to_builtins(repeat, builtin_types=(bytes,)))
    return repeat


def remove_repeats(context: SqliteContext, keys: Sequence[str]) -> list[bool]:
    """Delete repeats. False: there is no such repeat."""
    context.topics.add(REPEATS)
    return [context.run("remove_repeats", key=key) == 1 for key in keys]


def pause_repeats(context: SqliteContext, keys: Sequence[str], reason: str = "") -> list[bool]:
    """Pause active repeats. False: there is no such repeat, or it is not active."""
    context.topics.add(REPEATS)
    return [context.run("pause_repeats", key=key, reason=reason) == 1 for key in keys]


def resume_repeats(context: SqliteContext, keys: Sequence[str]) -> list[bool]:
    """Resume paused repeats. False: there is no such repeat, or it is not paused."""
    context.topics.add(REPEATS)
    return [context.run("resume_repeats", key=key) == 1 for key in keys]


def report_repeat(context: SqliteContext, key: str, failed: bool) -> int:
    """Count a job that ended. Returns how many failures in a row there are now."""
    found = context.row("report_repeat", key=key, failed=failed)
    return 0 if found is None else int(found[0])


def due_repeats(context: SqliteContext, limit: int) -> DueRepeats:
    """Repeats whose fire time has come, the earliest first, and the next fire time after them."""
    repeats: list[Repeat] = []
    want, full = limit + 1, True
    # Repeats that cannot be read must not keep others from being returned.
    while full and len(repeats) <= limit:
        rows = context.rows("due_repeats", now=context.now, limit=want)
        repeats = [repeat for row in rows if not is_lost(repeat := to_repeat(row))]
        want, full = want * 2, len(rows) == want
    following: Moment | None = (
        repeats[limit].cursor
        if len(repeats) > limit
        else context.value("due_repeats_next", now=context.now)
    )
    return DueRepeats(context.now, repeats[:limit], following)


def fire(context: SqliteContext, firings: Sequence[Firing]) -> list[bool]:
    """Apply firings whose repeats are unchanged, and enqueue their jobs together."""
    won = [_move_on(context, firing) for firing in firings]
    jobs = [job for firing, took in zip(firings, won, strict=True) if took for job in firing.jobs]
    enqueue(context, jobs)
    return won


def _move_on(context: SqliteContext, firing: Firing) -> bool:
    changed = context.run(
        "fire",
        key=firing.key,
        cursor=firing.cursor,
        revision=firing.revision,
        next=firing.next,
        fired=firing.fired,
        last=firing.last,
        state=firing.state.value,
        reason=firing.reason,
    )
    return changed == 1


def list_repeats(context: SqliteContext) -> list[Repeat]:
    """All repeats, by key."""
    return [to_repeat(row) for row in context.rows("list_repeats")]


def find_repeats(context: SqliteContext, keys: Sequence[str]) -> list[Repeat | None]:
    """The repeats with these keys; None where there is none."""
    rows = [context.row("find_repeats", key=key) for key in keys]
    return [None if row is None else to_repeat(row) for row in rows]


def lock(context: SqliteContext, name: str, holder: str, keep: Wait) -> bool:
    """Take or extend a lock. False: another holder has it."""
    now = context.now
    return context.run("lock", name=name, holder=holder, until=now + keep, now=now) == 1


def unlock(context: SqliteContext, name: str, holder: str) -> None:
    """Release a lock, if this holder has it."""
    if context.run("unlock", name=name, holder=holder):
        context.topics.add(REPEATS)
