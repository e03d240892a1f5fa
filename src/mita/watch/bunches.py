"""From a note to what is told of it: bunches of events that have most things in common."""

from collections.abc import Iterable
from typing import TypeAlias

from mita.model.event import Bunch, Kind, Reason
from mita.model.job import NewJob, State
from mita.model.outcome import Settlement
from mita.model.time import SECOND, Moment

from .notes import Amended, Began, Begun, Enqueued, Fired, Locked, Made, Note, SentAway, Settled, Turned, asked, meaning

SUCCEEDED = State.SUCCEEDED
_Alike: TypeAlias = tuple[Kind, str, str, int, str]  # kind, task, queue, runs that failed before, reason
_Columns: TypeAlias = tuple[list[str], list[float], list[float]]  # ids, seconds, waits


def bunches(note: Note) -> list[Bunch]:
    """In the order in which things happened. Within one note each job has one event, so that a bunch may gather them."""
    match note:
        case Began() | Settled():
            if note.bunched is None:
                note.bunched = _began(note) if isinstance(note, Began) else _settled(note)
            return note.bunched
        case Made(made):
            return made
        case Enqueued(jobs, receipts, at):
            return _enqueued((job for job, receipt in zip(jobs, receipts, strict=True) if receipt.created), at)
        case Fired(firings, won, at):
            return _enqueued((job for firing, mine in zip(firings, won, strict=True) if mine for job in firing.jobs), at)
        case SentAway():
            return _sent_away(note)
        case Amended():
            means = asked(note)
            return [] if means is None else [Bunch(means[0], note.task, note.queue, note.at, reason=means[1], ids=[note.id])]
        case Turned() | Locked():
            return []


def _began(note: Began) -> list[Bunch]:
    """Nearly all events come from here and from the next, so these two are written for speed. Neighbours are mostly alike:
    what is looked up for one serves the next."""
    groups: dict[_Alike, _Columns] = {}
    timed: list[Begun] = []
    task = queue = None
    attempts = 0
    for run in note.runs:
        claim = run.claim
        if claim.task != task or claim.queue != queue or claim.attempts != attempts:
            task, queue, attempts = claim.task, claim.queue, claim.attempts
            ids, _, waits = groups.setdefault((Kind.STARTED, task, queue, attempts, ""), ([], [], []))
        ids.append(claim.id)
        due = claim.due
        wait = claim.at - due
        waits.append(wait / SECOND + run.waited if wait > 0 else run.waited)
        if due > claim.created or claim.fire_time is not None:
            timed.append(run)
    note.timed = timed
    return _made(groups, note.at, note.worker)


def _settled(note: Settled) -> list[Bunch]:
    groups: dict[_Alike, _Columns] = {}
    task = queue = None
    attempts = 0
    for settlement, took in zip(note.settlements, note.took, strict=True):
        claim = settlement.claim
        if not took or settlement.verdict.state is not SUCCEEDED or settlement.told:
            _put_odd(groups, settlement, took)
            continue
        if claim.task != task or claim.queue != queue or claim.attempts != attempts:
            task, queue, attempts = claim.task, claim.queue, claim.attempts
            ids, seconds, _ = groups.setdefault((Kind.SUCCEEDED, task, queue, attempts, ""), ([], [], []))
        ids.append(claim.id)
        seconds.append(settlement.seconds)
    return _made(groups, note.at, note.worker)


def _put_odd(groups: dict[_Alike, _Columns], settlement: Settlement, took: bool) -> None:
    """A run that ended in any way but well."""
    means = meaning(settlement) if took else (Kind.STALE, "")
    if means is None:
        return
    claim, when = settlement.claim, settlement.verdict.when
    kind, reason = means
    ids, seconds, waits = groups.setdefault((kind, claim.task, claim.queue, claim.attempts, reason), ([], [], []))
    ids.append(claim.id)
    seconds.append(settlement.seconds)
    waits.append(when.wait / SECOND if when is not None and kind is Kind.RETRIED else 0.0)


def _made(groups: dict[_Alike, _Columns], at: Moment, worker: str) -> list[Bunch]:
    return [
        Bunch(kind, task, queue, at, worker, attempts + 1, reason, *columns)
        for (kind, task, queue, attempts, reason), columns in groups.items()
    ]


def _enqueued(jobs: Iterable[NewJob], at: Moment) -> list[Bunch]:
    groups: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        groups.setdefault((job.task, job.queue), []).append(job.id)
    return [Bunch(Kind.ENQUEUED, task, queue, at, ids=ids) for (task, queue), ids in groups.items()]


def _sent_away(note: SentAway) -> list[Bunch]:
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for job in note.jobs:
        groups.setdefault((job.task, job.queue, job.ended), []).append(job.id)
    return [
        Bunch(Kind.CANCELLED, task, queue, note.at, ids=ids)
        if ended
        else Bunch(Kind.RESCHEDULED, task, queue, note.at, reason=Reason.RESOURCE_BUSY, ids=ids)
        for (task, queue, ended), ids in groups.items()
    ]
