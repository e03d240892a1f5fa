"""Repeats: stored rules that make jobs; and the lock of the scheduler that fires them."""

from collections.abc import Sequence

from mita.model.repeat import DueRepeats, Firing, Repeat, RepeatState
from mita.model.time import Wait
from mita.ports.store import REPEATS
from mita.rules.readable import is_lost
from mita.rules.schedule.spec import edited

from . import codec
from .context import PostgresContext, Query, RoundTrip, RoundTrips, query
from .enqueue import enqueue
from .server.arrays import numbers, storable, texts
from .throughput import new_columns


def put_repeat(context: PostgresContext, repeat: Repeat) -> RoundTrips[Repeat]:
    """Store a repeat, or edit the stored one with the same key. Returns what is stored now."""
    written, [row] = yield RoundTrip(
        query("put_repeat", **codec.repeat_values(repeat)),
        query("put_repeat_lock", key=repeat.key),
    )
    stored = codec.as_repeat(row)
    unchanged = stored.spec == repeat.spec and stored.state in (
        RepeatState.ACTIVE,
        RepeatState.PAUSED,
    )
    if written or not unchanged:
        context.topics.add(REPEATS)
    if written or unchanged:
        yield RoundTrip(last=True)
        return stored
    new = edited(stored, repeat)
    yield RoundTrip(query("put_repeat_edit", **codec.repeat_values(new)), last=True)
    return new


def remove_repeats(context: PostgresContext, keys: Sequence[str]) -> RoundTrips[list[bool]]:
    """Remove repeats. Returns for each key whether it was removed."""
    if not keys:
        return []
    [rows] = yield RoundTrip(query("remove_repeats", keys=texts(sorted(set(keys)))), last=True)
    return _changed(context, keys, {key for (key,) in rows})


def pause_repeats(
    context: PostgresContext, keys: Sequence[str], reason: str = ""
) -> RoundTrips[list[bool]]:
    """Pause active repeats. Returns for each key whether it was paused."""
    return _switch(context, keys, "pause_repeats", reason=storable(reason))


def resume_repeats(context: PostgresContext, keys: Sequence[str]) -> RoundTrips[list[bool]]:
    """Resume paused repeats. Returns for each key whether it was resumed."""
    return _switch(context, keys, "resume_repeats")


def _switch(
    context: PostgresContext, keys: Sequence[str], statement: str, **values: str
) -> RoundTrips[list[bool]]:
    if not keys:
        return []
    [rows] = yield RoundTrip(query(statement, keys=texts(sorted(set(keys))), **values), last=True)
    return _changed(context, keys, {key for (key,) in rows})


def report_repeat(_: PostgresContext, key: str, failed: bool) -> RoundTrips[int]:
    """Count a job that ended. Returns how many failures in a row there are now."""
    [rows] = yield RoundTrip(query("report_repeat", key=storable(key), failed=failed), last=True)
    return int(rows[0][0]) if rows else 0


def _changed(context: PostgresContext, keys: Sequence[str], done: set[str]) -> list[bool]:
    """For each key whether it was changed. A key that is named twice was changed once."""
    if done:
        context.topics.add(REPEATS)
    return [key in done and key not in keys[:n] for n, key in enumerate(keys)]


def due_repeats(_: PostgresContext, limit: int) -> RoundTrips[DueRepeats]:
    """The repeats that are due, and when the next one is."""
    repeats: list[Repeat] = []
    now, want, full = 0, limit + 1, True
    # repeats that cannot be read must not keep the others out
    while full and len(repeats) <= limit:
        [rows] = yield RoundTrip(query("due_repeats", limit=want), last=True)
        now = rows[0][0]
        repeats = [
            repeat
            for row in rows
            if row[1] is not None and not is_lost(repeat := codec.as_repeat(row[1:]))
        ]
        want, full = want * 2, len(rows) == want
    due = [one for one in repeats if one.cursor is not None and one.cursor <= now][:limit]
    return DueRepeats(now, due, repeats[len(due)].cursor if len(repeats) > len(due) else None)


def fire(context: PostgresContext, firings: Sequence[Firing]) -> RoundTrips[list[bool]]:
    """Apply firings and enqueue their jobs. Returns for each whether it won.

    Many go in one transaction: one round trip and one sync to disk for all. A repeat that is named
    twice takes two."""
    won = [False] * len(firings)
    left = dict(enumerate(firings))
    while left:
        part = {firing.key: at for at, firing in reversed(left.items())}  # the first of each key
        yield from _fire(context, left, part, won)
        left = {at: firing for at, firing in left.items() if at != part[firing.key]}
    return won


def _fire(
    context: PostgresContext, firings: dict[int, Firing], part: dict[str, int], won: list[bool]
) -> RoundTrips[None]:
    together = [firings[at] for at in sorted(part.values())]
    keyed = any(job.unique is not None for firing in together for job in firing.jobs)
    took, queues = yield from (
        _in_two_steps(context, together) if keyed else _in_one_step(together)
    )
    for key in took:
        won[part[key]] = True
    context.topics |= queues
    context.new_queues |= queues


def _in_one_step(firings: list[Firing]) -> RoundTrips[tuple[set[str], set[str]]]:
    """Returns the keys of the firings that won, and the queues of their jobs."""
    [rows] = yield RoundTrip(_fire_query(firings, with_jobs=True), last=True)
    won = {key for key, _ in rows if key is not None}
    return won, {queue for key, queue in rows if key is None}


def _in_two_steps(
    context: PostgresContext, firings: list[Firing]
) -> RoundTrips[tuple[set[str], set[str]]]:
    """The same for jobs with unique keys: only a firing that won may take a unique key."""
    [rows] = yield RoundTrip(_fire_query(firings, with_jobs=False))
    won = {key for key, _ in rows}
    jobs = [job for firing in firings if firing.key in won for job in firing.jobs]
    receipts = yield from enqueue(context, jobs, last=False)
    yield RoundTrip(last=True)
    return won, {job.queue for job, receipt in zip(jobs, receipts, strict=True) if receipt.created}


def _fire_query(firings: list[Firing], *, with_jobs: bool) -> Query:
    made = [(firing.key, job) for firing in firings for job in firing.jobs] if with_jobs else []
    return query(
        "fire",
        keys=texts([firing.key for firing in firings]),
        cursors=numbers([firing.cursor for firing in firings]),
        revisions=numbers([firing.revision for firing in firings]),
        nexts=numbers([firing.next for firing in firings]),
        fireds=numbers([firing.fired for firing in firings]),
        lasts=numbers([firing.last for firing in firings]),
        states=texts([firing.state.value for firing in firings]),
        reasons=texts([firing.reason for firing in firings]),
        makers=texts([key for key, _ in made]),
        **new_columns.columns([job for _, job in made]),
    )


def list_repeats(_: PostgresContext) -> RoundTrips[list[Repeat]]:
    """All repeats, by key."""
    [rows] = yield RoundTrip(query("list_repeats"), last=True)
    return [codec.as_repeat(row) for row in rows]


def find_repeats(_: PostgresContext, keys: Sequence[str]) -> RoundTrips[list[Repeat | None]]:
    """The repeat of each key; None where there is none."""
    if not keys:
        return []
    [rows] = yield RoundTrip(query("find_repeats", keys=texts(list(keys))), last=True)
    found = {repeat.key: repeat for repeat in map(codec.as_repeat, rows)}
    return [found.get(key) for key in keys]


def lock(_: PostgresContext, name: str, holder: str, keep: Wait) -> RoundTrips[bool]:
    """Take or renew a named lock for a while. Returns whether this holder has it."""
    [rows] = yield RoundTrip(query("lock", name=name, holder=holder, keep=keep), last=True)
    return bool(rows)


def unlock(context: PostgresContext, name: str, holder: str) -> RoundTrips[None]:
    """Release a named lock, if this holder has it."""
    [rows] = yield RoundTrip(query("unlock", name=name, holder=holder), last=True)
    if rows:
        context.topics.add(REPEATS)
