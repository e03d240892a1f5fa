"""Stored rules that make jobs."""

from collections.abc import Sequence
from typing import Any

from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import Wait
from mita.ports.store import REPEATS
from mita.rules.readable import is_lost, read_repeat
from mita.rules.schedule.spec import edited

from .arrays import numbers, storable, texts
from .enqueue import columns, enqueue
from .steps import Act, Ask, Row, Step, Steps, ask


def put(act: Act, repeat: Repeat) -> Steps[Repeat]:
    written, [stored] = yield Step(
        ask("put_repeat", **_values(repeat)), ask("repeat", key=repeat.key)
    )
    old = _as_repeat(stored)
    if written:
        act.topics.add(REPEATS)
    if written or (
        old.spec == repeat.spec and old.state in (RepeatState.ACTIVE, RepeatState.PAUSED)
    ):
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
    return read_repeat(dict(zip(Repeat.__struct_fields__, row, strict=True)))


def remove(act: Act, keys: Sequence[str]) -> Steps[list[bool]]:
    [rows] = yield Step(ask("remove_repeats", keys=texts(sorted(set(keys)))), last=True)
    return _first_of_each(act, keys, {key for (key,) in rows})


def switch(act: Act, keys: Sequence[str], old: RepeatState, new: RepeatState) -> Steps[list[bool]]:
    [rows] = yield Step(
        ask("switch_repeats", keys=texts(sorted(set(keys))), old=old.value, new=new.value),
        last=True,
    )
    return _first_of_each(act, keys, {key for (key,) in rows})


def _first_of_each(act: Act, keys: Sequence[str], done: set[str]) -> list[bool]:
    """Who names a key twice did it once."""
    if done:
        act.topics.add(REPEATS)
    return [key in done and key not in keys[:n] for n, key in enumerate(keys)]


def due(_: Act, limit: int) -> Steps[DueRepeats]:
    repeats: list[Repeat] = []
    now, want, full = 0, limit + 1, True
    # those that cannot be read are no reason to leave out others
    while full and len(repeats) <= limit:
        [rows] = yield Step(ask("due_repeats", limit=want), last=True)
        now = rows[0][0]
        repeats = [
            repeat
            for row in rows
            if row[1] is not None and not is_lost(repeat := _as_repeat(row[1:]))
        ]
        want, full = want * 2, len(rows) == want
    come = [repeat for repeat in repeats if repeat.cursor is not None and repeat.cursor <= now][
        :limit
    ]
    return DueRepeats(now, come, repeats[len(come)].cursor if len(repeats) > len(come) else None)


def fire(act: Act, firings: Sequence[Firing]) -> Steps[tuple[list[bool], set[str]]]:
    """Many in one transaction: one round trip and one sync to disk for all of them. Who names a
    repeat twice takes two.

    Also gives the queues that the database knows now."""
    won = [False] * len(firings)
    queues: set[str] = set()
    left = dict(enumerate(firings))
    while left:
        part = {firing.key: at for at, firing in reversed(left.items())}  # the first of each key
        queues |= yield from _fire(act, left, part, won)
        left = {at: firing for at, firing in left.items() if at != part[firing.key]}
    return won, queues


def _fire(
    act: Act, firings: dict[int, Firing], part: dict[str, int], won: list[bool]
) -> Steps[set[str]]:
    together = [firings[at] for at in sorted(part.values())]
    keyed = any(job.unique is not None for firing in together for job in firing.jobs)
    took, queues = yield from (_in_two_steps(act, together) if keyed else _in_one_step(together))
    for key in took:
        won[part[key]] = True
    act.topics |= queues
    return queues


def _in_one_step(firings: list[Firing]) -> Steps[tuple[set[str], set[str]]]:
    """The keys of those that won, and the queues of their jobs."""
    [rows] = yield Step(_move(firings, with_jobs=True), last=True)
    return {row[0] for row in rows if row[0] is not None}, {
        row[1] for row in rows if row[0] is None
    }


def _in_two_steps(act: Act, firings: list[Firing]) -> Steps[tuple[set[str], set[str]]]:
    """Whoever takes a unique key must have won first."""
    [rows] = yield Step(_move(firings, with_jobs=False))
    took = {key for key, _ in rows}
    jobs = [job for firing in firings if firing.key in took for job in firing.jobs]
    receipts = yield from enqueue(act, jobs, last=False)
    yield Step(last=True)
    return took, {job.queue for job, receipt in zip(jobs, receipts, strict=True) if receipt.created}


def _move(firings: list[Firing], *, with_jobs: bool) -> Ask:
    made = [(firing.key, job) for firing in firings for job in firing.jobs] if with_jobs else []
    return ask(
        "fire",
        **_moves(firings),
        makers=texts([key for key, _ in made]),
        **columns([job for _, job in made]),
    )


def _moves(firings: list[Firing]) -> dict[str, str]:
    return {
        "keys": texts([firing.key for firing in firings]),
        "cursors": numbers([firing.cursor for firing in firings]),
        "revisions": numbers([firing.revision for firing in firings]),
        "nexts": numbers([firing.next for firing in firings]),
        "fireds": numbers([firing.fired for firing in firings]),
        "lasts": numbers([firing.last for firing in firings]),
        "states": texts([firing.state.value for firing in firings]),
        "reasons": texts([firing.reason for firing in firings]),
    }


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
