"""Resource keys: which jobs may run, which have to wait, and which are woken. Each function works
inside the transaction of the verb that calls it."""

from typing import Any

from mita.model.outcome import Busy, TimelineKind
from mita.model.time import When
from mita.rules.busy import BUSY_POLICIES, BUSY_RETENTION, BusyPolicy, busy_note, replaced_note

from . import unique
from .codec import ID, LIMIT, RESOURCE, TASK, WHEN_BUSY, is_text
from .context import SqliteContext, as_json

ALL_JOBS = 1_000_000  # more than ever wait for one key


def admit(context: SqliteContext, queue: str, rows: list[Any], busy: list[Busy]) -> list[Any]:
    """The rows of candidates that may run. The others are blocked or end, as their policy says, and
    are added to `busy`."""
    holders: dict[str, tuple[int, bool]] = {}
    admitted = []
    for row in rows:
        rare = row[-1]
        if rare is None or rare[RESOURCE] is None:
            admitted.append(row)
            continue
        key = rare[RESOURCE]
        if key not in holders:
            count, until = context.row("key_state", queue=queue, key=key)
            holders[key] = count, until is not None and until > context.now
        count, on_hold = holders[key]
        if on_hold or count >= rare[LIMIT]:
            seq, id, task = row[0], row[ID], row[TASK]
            policy = BUSY_POLICIES[rare[WHEN_BUSY]]
            _apply_busy_policy(context, queue, key, seq, id, policy)
            busy.append(Busy(id, task, queue, policy.ends))
        else:
            holders[key] = count + 1, on_hold
            admitted.append(row)
    return admitted


def _apply_busy_policy(
    context: SqliteContext, queue: str, key: str, seq: int, id: str, policy: BusyPolicy
) -> None:
    """Apply the policy of a job whose key is busy."""
    if policy.replaces:
        waiting = context.rows("key_waiters", queue=queue, key=key, limit=ALL_JOBS)
        replaced = [other for other, _, _ in waiting]
        _end(context, replaced, busy=0)
        for other in replaced:
            context.note(other, TimelineKind.REPLACED, replaced_note(id))
    if policy.ends:
        _end(context, [seq], busy=1)
    else:
        context.run("claim_block", seq=seq)
    context.note(seq, policy.line, busy_note(key))


def _end(context: SqliteContext, seqs: list[int], *, busy: int) -> None:
    """Waiting jobs end without having run. `busy` is added to their counter."""
    unique.free_of_jobs(context, seqs)
    now, expires = context.now, context.now + BUSY_RETENTION
    context.run("claim_end", seqs=as_json(seqs), busy=busy, now=now, expires=expires)


def wake(context: SqliteContext, queue: str, key: str, at_most: int) -> None:
    """Return the first jobs that wait for a key to the queue, as many as may run."""
    holders, until = context.row("key_state", queue=queue, key=key)
    if until is not None and until > context.now:
        return
    first = context.row("key_waiters", queue=queue, key=key, limit=1)
    if first is None:
        return
    free = min(max(1, first[1]) - holders, at_most)
    if free <= 0:
        return
    waiting = context.rows("key_waiters", queue=queue, key=key, limit=free)
    context.run("key_wake", seqs=as_json(seq for seq, _, _ in waiting))
    context.topics.add(queue)


def wake_all(context: SqliteContext) -> None:
    """Wake the jobs that may run, at every key at which jobs wait: a safety net for wake-ups that
    were lost."""
    for row in context.rows("key_waited"):
        if not is_text(row):
            # the record is set aside: see `maintenance.set_aside`
            raise ValueError("a blocked job has a queue or a key that cannot be read")
        queue, key = row
        wake(context, queue, key, ALL_JOBS)


def hold(context: SqliteContext, queue: str, key: str, when: When) -> None:
    """Put a key on hold. A point in time that is not in the future lifts the hold."""
    until = when.moment(context.now)
    if until > context.now:
        fixed = when.is_fixed(context.now)
        context.run("hold", queue=queue, key=key, until=until, fixed=fixed)
    else:
        context.run("hold_lift", queue=queue, key=key)
        wake(context, queue, key, ALL_JOBS)
    context.topics.add(queue)  # workers wait until the end of a hold, which has changed


def end_holds(context: SqliteContext, queues: list[str] | None) -> None:
    """Delete holds that are over, in these queues or in all (None), and wake the jobs behind
    them."""
    names = None if queues is None else as_json(queues)
    for queue, key in filter(is_text, context.rows("hold_ended", queues=names, now=context.now)):
        context.run("hold_lift", queue=queue, key=key)
        wake(context, queue, key, ALL_JOBS)
