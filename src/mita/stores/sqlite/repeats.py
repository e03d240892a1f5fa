"""Stored rules that make jobs."""

from collections.abc import Sequence
from typing import Any

from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import Moment, Wait
from mita.ports.store import REPEATS
from mita.rules.readable import is_lost, read_repeat
from mita.rules.schedule.spec import edited

from .context import Tx
from .enqueue import enqueue


def put_repeat(tx: Tx, repeat: Repeat) -> Repeat:
    found = tx.row("repeat", key=repeat.key)
    if found is None:
        _write(tx, repeat)
        return repeat
    old = _as_repeat(found)
    if old.spec == repeat.spec and old.state in (RepeatState.ACTIVE, RepeatState.PAUSED):
        return old
    new = edited(old, repeat)
    _write(tx, new)
    return new


def _write(tx: Tx, repeat: Repeat) -> None:
    tx.topics.add(REPEATS)
    tx.run(
        "put_repeat",
        key=repeat.key,
        spec=repeat.spec,
        cursor=repeat.cursor,
        state=repeat.state.value,
        reason=repeat.reason,
        revision=repeat.revision,
        count=repeat.count,
        last=repeat.last,
    )


def _as_repeat(row: Any) -> Repeat:
    return read_repeat(dict(zip(Repeat.__struct_fields__, row, strict=True)))


def remove_repeats(tx: Tx, keys: Sequence[str]) -> list[bool]:
    tx.topics.add(REPEATS)
    return [tx.run("remove_repeat", key=key) == 1 for key in keys]


def pause_repeats(tx: Tx, keys: Sequence[str]) -> list[bool]:
    return _switch(tx, keys, RepeatState.ACTIVE, RepeatState.PAUSED)


def resume_repeats(tx: Tx, keys: Sequence[str]) -> list[bool]:
    return _switch(tx, keys, RepeatState.PAUSED, RepeatState.ACTIVE)


def _switch(tx: Tx, keys: Sequence[str], old: RepeatState, new: RepeatState) -> list[bool]:
    tx.topics.add(REPEATS)
    return [tx.run("switch_repeat", key=key, old=old.value, new=new.value) == 1 for key in keys]


def due_repeats(tx: Tx, limit: int) -> DueRepeats:
    repeats: list[Repeat] = []
    want, full = limit + 1, True
    # those that cannot be read are no reason to leave out others
    while full and len(repeats) <= limit:
        rows = tx.rows("due_repeats", now=tx.now, limit=want)
        repeats = [repeat for row in rows if not is_lost(repeat := _as_repeat(row))]
        want, full = want * 2, len(rows) == want
    following: Moment | None = (
        repeats[limit].cursor if len(repeats) > limit else tx.one("next_fire", now=tx.now)
    )
    return DueRepeats(tx.now, repeats[:limit], following)


def fire(tx: Tx, firings: Sequence[Firing]) -> list[bool]:
    """All in one transaction; their jobs go in together, which costs a fraction of going one by
    one."""
    won = [_move_on(tx, firing) for firing in firings]
    jobs = [job for firing, took in zip(firings, won, strict=True) if took for job in firing.jobs]
    if jobs:
        enqueue(tx, jobs)
    return won


def _move_on(tx: Tx, firing: Firing) -> bool:
    changed = tx.run(
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


def list_repeats(tx: Tx) -> list[Repeat]:
    return [_as_repeat(row) for row in tx.rows("list_repeats")]


def find_repeats(tx: Tx, keys: Sequence[str]) -> list[Repeat | None]:
    rows = [tx.row("repeat", key=key) for key in keys]
    return [None if row is None else _as_repeat(row) for row in rows]


def lock(tx: Tx, name: str, holder: str, keep: Wait) -> bool:
    return tx.run("lock", name=name, holder=holder, until=tx.now + keep, now=tx.now) == 1


def unlock(tx: Tx, name: str, holder: str) -> None:
    if tx.run("unlock", name=name, holder=holder):
        tx.topics.add(REPEATS)
