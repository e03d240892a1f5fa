"""Stored rules that make jobs."""

from collections.abc import Sequence
from typing import Any

from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import Wait
from mita.ports.store import REPEATS
from mita.rules.spec import edited

from .arrays import storable, texts
from .enqueue import enqueue
from .steps import Act, Row, Step, Steps, ask


def put(act: Act, repeat: Repeat) -> Steps[Repeat]:
    written, [stored] = yield Step(ask("put_repeat", **_values(repeat)), ask("repeat", key=repeat.key))
    old = _as_repeat(stored)
    if written:
        act.topics.add(REPEATS)
    if written or (old.spec == repeat.spec and old.state in (RepeatState.ACTIVE, RepeatState.PAUSED)):
        yield Step(last=True)
        return old
    act.topics.add(REPEATS)
    new = edited(old, repeat)
    yield Step(ask("edit_repeat", **_values(new)), last=True)
    return new


def _values(repeat: Repeat) -> dict[str, Any]:
    return {
        "key": repeat.key,
        "spec": repeat.spec,
        "cursor": repeat.cursor,
        "state": repeat.state.value,
        "reason": storable(repeat.reason),
        "revision": repeat.revision,
        "count": repeat.count,
        "last": repeat.last,
    }


def _as_repeat(row: Row) -> Repeat:
    key, spec, cursor, state, reason, revision, count, last = row
    return Repeat(
        key=key,
        spec=bytes(spec),
        cursor=cursor,
        state=RepeatState(state),
        reason=reason,
        revision=revision,
        count=count,
        last=last,
    )


def remove(act: Act, keys: Sequence[str]) -> Steps[list[bool]]:
    [rows] = yield Step(ask("remove_repeats", keys=texts(sorted(set(keys)))), last=True)
    return _first_of_each(act, keys, {key for (key,) in rows})


def switch(act: Act, keys: Sequence[str], old: RepeatState, new: RepeatState) -> Steps[list[bool]]:
    [rows] = yield Step(ask("switch_repeats", keys=texts(sorted(set(keys))), old=old.value, new=new.value), last=True)
    return _first_of_each(act, keys, {key for (key,) in rows})


def _first_of_each(act: Act, keys: Sequence[str], done: set[str]) -> list[bool]:
    """Who names a key twice did it once."""
    if done:
        act.topics.add(REPEATS)
    return [key in done and key not in keys[:n] for n, key in enumerate(keys)]


def due(_: Act, limit: int) -> Steps[DueRepeats]:
    [rows] = yield Step(ask("due_repeats", limit=limit + 1), last=True)
    now = rows[0][0]
    repeats = [_as_repeat(row[1:]) for row in rows if row[1] is not None]
    come = [repeat for repeat in repeats if repeat.cursor is not None and repeat.cursor <= now][:limit]
    return DueRepeats(now, come, repeats[len(come)].cursor if len(repeats) > len(come) else None)


def fire(act: Act, firings: Sequence[Firing]) -> Steps[list[bool]]:
    """Each firing is a transaction of its own: the compare-and-set and its jobs."""
    won = []
    for firing in firings:
        took = yield from _fire(act, firing)
        won.append(took)
    return won


def _fire(act: Act, firing: Firing) -> Steps[bool]:
    [rows] = yield Step(
        ask(
            "fire",
            key=firing.key,
            cursor=firing.cursor,
            revision=firing.revision,
            next=firing.next,
            fired=firing.fired,
            last=firing.last,
            state=firing.state.value,
            reason=storable(firing.reason),
        ),
        last=not firing.jobs,
    )
    if firing.jobs:
        yield from enqueue(act, firing.jobs) if rows else _nothing()
    return bool(rows)


def _nothing() -> Steps[None]:
    yield Step(last=True)


def find(_: Act, keys: Sequence[str]) -> Steps[list[Repeat | None]]:
    [rows] = yield Step(ask("find_repeats", keys=texts(list(keys))), last=True)
    found = {repeat.key: repeat for repeat in map(_as_repeat, rows)}
    return [found.get(key) for key in keys]


def lock(_: Act, name: str, holder: str, keep: Wait) -> Steps[bool]:
    [rows] = yield Step(ask("lock", name=name, holder=holder, keep=keep), last=True)
    return bool(rows)


def unlock(act: Act, name: str, holder: str) -> Steps[None]:
    [rows] = yield Step(ask("unlock", name=name, holder=holder), last=True)
    if rows:
        act.topics.add(REPEATS)


def everything(_: Act) -> Steps[list[Repeat]]:
    [rows] = yield Step(ask("list_repeats"), last=True)
    return [_as_repeat(row) for row in rows]
