"""Resource keys: who may run, who has to wait, who is woken. Each within the transaction of the
verb that causes it."""

from typing import Any

from mita.model.job import WhenBusy
from mita.model.outcome import Busy
from mita.model.time import HOUR, When

from .context import Tx, as_json, is_text
from .timeline import note

ALL = 1_000_000
GIVEN_UP_KEEP = HOUR  # how long a job that was skipped or replaced can still be looked at


def admit(tx: Tx, queue: str, rows: list[Any], busy: list[Busy]) -> list[Any]:
    """Of these claimable rows, those that may run; the others are blocked, or end, as they asked
    for, and go to `busy`."""
    holders: dict[str, tuple[int, bool]] = {}
    admitted = []
    for row in rows:
        rest = row[-1]
        if rest is None or rest[6] is None:
            admitted.append(row)
            continue
        key, most, when_busy = rest[6], rest[12], rest[13]
        if key not in holders:
            count, until = tx.row("key", queue=queue, key=key)
            holders[key] = count, until is not None and until > tx.now
        count, held = holders[key]
        if held or count >= most:
            _turn_away(tx, queue, key, row[0], row[1], when_busy)
            busy.append(Busy(row[1], row[3], queue, when_busy == WhenBusy.SKIP))
        else:
            holders[key] = count + 1, held
            admitted.append(row)
    return admitted


def _turn_away(tx: Tx, queue: str, key: str, seq: int, id: str, when_busy: str) -> None:
    if when_busy == WhenBusy.SKIP:
        give_up(tx, [seq], busy=1)
        note(tx, seq, "skipped", f"{key} is taken")
        return
    if when_busy == WhenBusy.REPLACE:
        replaced = [other for other, _, _ in tx.rows("waiters", queue=queue, key=key, limit=ALL)]
        give_up(tx, replaced, busy=0)
        for other in replaced:
            note(tx, other, "replaced", f"by {id}")
    tx.run("block", seq=seq)
    note(tx, seq, "blocked", f"{key} is taken")


def give_up(tx: Tx, seqs: list[int], *, busy: int) -> None:
    """Waiting jobs end as cancelled without having run."""
    for queue, key, id, lasts in tx.rows("uniques_of", seqs=as_json(seqs)):
        tx.run("unique_free", queue=queue, key=key, id=id, until=tx.now + lasts)
    tx.run("give_up", seqs=as_json(seqs), busy=busy, now=tx.now, expires=tx.now + GIVEN_UP_KEEP)


def wake(tx: Tx, queue: str, key: str, at_most: int) -> None:
    """Send the first of a key's waiting jobs back to the queue, as many as may run."""
    holders, until = tx.row("key", queue=queue, key=key)
    if until is not None and until > tx.now:
        return
    first = tx.row("waiters", queue=queue, key=key, limit=1)
    if first is None:
        return
    places = min(max(1, first[1]) - holders, at_most)
    if places <= 0:
        return
    seqs = [seq for seq, _, _ in tx.rows("waiters", queue=queue, key=key, limit=places)]
    tx.run("wake", seqs=as_json(seqs))
    tx.topics.add(queue)


def hold(tx: Tx, queue: str, key: str, when: When) -> None:
    """Put a key on hold; a moment that is not ahead lifts the hold."""
    until = when.moment(tx.now)
    if until > tx.now:
        tx.run("hold", queue=queue, key=key, until=until, fixed=when.is_fixed(tx.now))
    else:
        tx.run("unhold", queue=queue, key=key)
        wake(tx, queue, key, ALL)
    tx.topics.add(queue)  # the sleepers' next moment has changed


def end_holds(tx: Tx, queues: list[str] | None) -> None:
    """Holds that have run out are gone, and whoever waited may go on."""
    names = None if queues is None else as_json(queues)
    for queue, key in filter(is_text, tx.rows("ended_holds", queues=names, now=tx.now)):
        tx.run("unhold", queue=queue, key=key)
        wake(tx, queue, key, ALL)


def mend(tx: Tx) -> None:
    """The net under a lost wake-up: every key that somebody waits for and nobody holds wakes its
    first."""
    for row in tx.rows("waited_keys"):
        if not is_text(row):
            # see `aside`
            raise ValueError("a blocked job has a queue or a key that cannot be read")
        queue, key = row
        wake(tx, queue, key, ALL)
