"""Stored rules that make jobs."""

from collections.abc import Sequence
from typing import Any

from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import Moment
from mita.rules.spec import edited

from .enqueue import enqueue
from .tx import Tx


def put(tx: Tx, repeat: Repeat) -> Repeat:
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
    key, spec, cursor, state, reason, revision, count, last = row
    return Repeat(
        key=key,
        spec=spec,
        cursor=cursor,
        state=RepeatState(state),
        reason=reason,
        revision=revision,
        count=count,
        last=last,
    )


def remove(tx: Tx, keys: Sequence[str]) -> list[bool]:
    return [tx.run("remove_repeat", key=key) == 1 for key in keys]


def switch(tx: Tx, keys: Sequence[str], old: RepeatState, new: RepeatState) -> list[bool]:
    return [tx.run("switch_repeat", key=key, old=old.value, new=new.value) == 1 for key in keys]


def due(tx: Tx, limit: int) -> DueRepeats:
    repeats = [_as_repeat(row) for row in tx.rows("due_repeats", now=tx.now, limit=limit + 1)]
    following: Moment | None = repeats[limit].cursor if len(repeats) > limit else tx.one("next_fire", now=tx.now)
    return DueRepeats(tx.now, repeats[:limit], following)


def fire(tx: Tx, firings: Sequence[Firing]) -> list[bool]:
    return [_fire(tx, firing) for firing in firings]


def _fire(tx: Tx, firing: Firing) -> bool:
    won = tx.run(
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
    if won and firing.jobs:
        enqueue(tx, firing.jobs)
    return won == 1


def everything(tx: Tx) -> list[Repeat]:
    return [_as_repeat(row) for row in tx.rows("list_repeats")]
