"""From a note to what is told of it: bunches of events that have most things in common."""

from collections.abc import Iterable
from typing import TypeAlias

from mita.model.event import EventBatch, Kind, MoveReason
from mita.model.job import Claim, NewJob, State
from mita.model.outcome import Settlement
from mita.model.repeat import Firing
from mita.model.time import SECOND, Moment

from .signals import (
    Ahead,
    Amended,
    Began,
    Begun,
    Enqueued,
    Fired,
    Locked,
    Made,
    SentAway,
    Settled,
    Signal,
    StoreFailed,
    Turned,
    asked,
    meaning,
    waited,
)

SUCCEEDED = State.SUCCEEDED
# kind, task, queue, runs that failed before, reason
_Alike: TypeAlias = tuple[Kind, str, str, int, str]
_Columns: TypeAlias = tuple[list[str], list[float], list[float]]  # ids, seconds, waits


def bunches(note: Signal) -> list[EventBatch]:
    """In the order in which things happened. Within one note a job has one event, or its start and
    its end: so a bunch may gather them."""
    match note:
        case Began() | Settled():
            if note.bunched is None:
                note.bunched = _began(note) if isinstance(note, Began) else _settled(note)
            return note.bunched
        case Made(made):
            return made
        case Enqueued(jobs, receipts, at):
            return _enqueued(
                (job for job, receipt in zip(jobs, receipts, strict=True) if receipt.created), at
            )
        case Fired(firings, won, at):
            mine = [firing for firing, mine in zip(firings, won, strict=True) if mine]
            return [
                *_enqueued((job for firing in mine for job in firing.jobs), at),
                *_dropped(mine, at),
            ]
        case SentAway():
            return _sent_away(note)
        case Amended():
            means = asked(note)
            return (
                []
                if means is None
                else [
                    EventBatch(
                        means[0], note.task, note.queue, note.at, reason=means[1], ids=[note.id]
                    )
                ]
            )
        case Ahead(ahead):
            bunches(ahead)
            return []
        case Turned() | Locked() | StoreFailed():
            return []


def _began(note: Began) -> list[EventBatch]:
    groups: dict[_Alike, _Columns] = {}
    for run in note.runs:
        _put_start(groups, run.claim, run.waited)
    note.timed = [run for run in note.runs if _timed(run.claim)]
    return _made(groups, note.at, note.worker)


def _settled(note: Settled) -> list[EventBatch]:
    """Nearly all events come from here, and nearly all are of runs that began and ended well since
    the last note: so this is written for speed. Those that began together share their start, and
    those that ended alike their verdict; neighbours are mostly due at the same time. What was
    looked up for one serves the next."""
    if not all(note.took):
        return _others(note, [*zip(note.settlements, note.took, strict=True)])
    wholes: dict[_Alike, _Columns] = {}
    others: list[tuple[Settlement, bool]] = []
    timed: list[Begun] = []
    same_start = same_verdict = same_due = same_at = None
    here = wait = 0.0
    for settlement in note.settlements:
        start = settlement.start
        if start is not same_start or settlement.verdict is not same_verdict:
            if start is None or settlement.verdict.state is not SUCCEEDED:
                others.append((settlement, True))
                continue
            same_verdict = settlement.verdict
            if start is not same_start:
                same_start, same_due, here = start, None, start.waited
                alike = (Kind.SUCCEEDED, start.task, start.queue, start.attempts, "")
                ids, seconds, waits = wholes.setdefault(alike, ([], [], []))
        claim = settlement.claim
        ids.append(claim.id)
        seconds.append(settlement.seconds)
        due = claim.due
        if due != same_due or claim.at is not same_at:
            same_due, same_at = due, claim.at
            wait = waited(claim, here)
        waits.append(wait)
        if due > claim.created or claim.fire_time is not None:
            timed.append(Begun(claim, here))
    note.timed = timed
    return _made(wholes, note.at, note.worker, whole=True) + (
        _others(note, others) if others else []
    )


def _others(note: Settled, others: list[tuple[Settlement, bool]]) -> list[EventBatch]:
    """Of runs that ended in any way but well, or whose start was told before. All starts come
    before all ends."""
    starts: dict[_Alike, _Columns] = {}
    ends: dict[_Alike, _Columns] = {}
    begun = [Begun(one.claim, one.start.waited) for one, _ in others if one.start is not None]
    for run in begun:
        _put_start(starts, run.claim, run.waited)
    for settlement, took in others:
        _put_end(ends, settlement, took)
    note.timed = [*note.timed, *(run for run in begun if _timed(run.claim))]
    return _made(starts, note.at, note.worker) + _made(ends, note.at, note.worker)


def _put_start(groups: dict[_Alike, _Columns], claim: Claim, here: float) -> None:
    ids, _, waits = groups.setdefault(
        (Kind.STARTED, claim.task, claim.queue, claim.attempts, ""), ([], [], [])
    )
    ids.append(claim.id)
    waits.append(waited(claim, here))


def _put_end(groups: dict[_Alike, _Columns], settlement: Settlement, took: bool) -> None:
    means = meaning(settlement) if took else (Kind.STALE, "")
    if means is None:
        return
    claim, when = settlement.claim, settlement.verdict.when
    kind, reason = means
    ids, seconds, waits = groups.setdefault(
        (kind, claim.task, claim.queue, claim.attempts, reason), ([], [], [])
    )
    ids.append(claim.id)
    seconds.append(settlement.seconds)
    if kind is Kind.RETRIED:
        waits.append(0.0 if when is None else when.wait / SECOND)


def _timed(claim: Claim) -> bool:
    """Was it given a time, or made by a repeat?"""
    return claim.due > claim.created or claim.fire_time is not None


def _made(
    groups: dict[_Alike, _Columns], at: Moment, worker: str, *, whole: bool = False
) -> list[EventBatch]:
    return [
        EventBatch(kind, task, queue, at, worker, attempts + 1, reason, *columns, whole=whole)
        for (kind, task, queue, attempts, reason), columns in groups.items()
    ]


def _enqueued(jobs: Iterable[NewJob], at: Moment) -> list[EventBatch]:
    groups: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        groups.setdefault((job.task, job.queue), []).append(job.id)
    return [
        EventBatch(Kind.ENQUEUED, task, queue, at, ids=ids) for (task, queue), ids in groups.items()
    ]


def _dropped(firings: Iterable[Firing], at: Moment) -> list[EventBatch]:
    """One that makes no job at all (its limit was reached) tells nothing of its task and queue."""
    return [
        EventBatch(
            Kind.DROPPED,
            task,
            queue,
            at,
            reason=firing.missed,
            ids=[firing.key],
            count=firing.dropped,
        )
        for firing in firings
        if firing.dropped
        for task, queue in [
            (firing.jobs[0].task, firing.jobs[0].queue) if firing.jobs else ("", "")
        ]
    ]


def _sent_away(note: SentAway) -> list[EventBatch]:
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for job in note.jobs:
        groups.setdefault((job.task, job.queue, job.ended), []).append(job.id)
    return [
        EventBatch(Kind.CANCELLED, task, queue, note.at, ids=ids)
        if ended
        else EventBatch(
            Kind.RESCHEDULED, task, queue, note.at, reason=MoveReason.RESOURCE_BUSY, ids=ids
        )
        for (task, queue, ended), ids in groups.items()
    ]
