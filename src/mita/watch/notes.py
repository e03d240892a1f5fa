"""What engine and client note down, as they have it at hand: one note for a whole batch, so that a job costs next to
nothing. Whoever wants single events makes them of a note later, on a thread of his own."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from mita.model.event import JobEvent, Kind, Reason
from mita.model.job import Claim, NewJob, Receipt, State
from mita.model.outcome import Answer, Busy, Cancel, Change, Counter, Move, Revive, Settlement
from mita.model.repeat import Firing
from mita.model.time import SECOND, Moment

WAITING = 2000  # events that may wait as notes, with arguments and results hanging on them


class Enqueued(Struct, frozen=True):
    """Jobs that were taken in, or not, because an earlier one has their unique key."""

    jobs: Sequence[NewJob]
    receipts: Sequence[Receipt]
    at: Moment


class Begun(Struct, frozen=True, gc=False):
    """A run that began, and how many seconds its claim waited for a slot. There is one for each job, whether anybody watches
    or not: nothing that the garbage collector would have to look through."""

    claim: Claim
    waited: float


class Began(Struct, frozen=True):
    """Runs that began."""

    runs: Sequence[Begun]
    worker: str
    at: Moment


class Settled(Struct, frozen=True):
    """Claims that were put down; False: too late."""

    settlements: Sequence[Settlement]
    took: Sequence[bool]
    worker: str
    at: Moment


class SentAway(Struct, frozen=True):
    """Jobs that a claim met and that found their resource key taken."""

    jobs: Sequence[Busy]
    at: Moment


class Turned(Struct, frozen=True):
    """One round trip of a worker: how long it took, what it put down, and what it was given, if it asked for any."""

    seconds: float
    settled: int
    claimed: int | None


class Amended(Struct, frozen=True):
    """What a person asked of a job. Only its id may be known."""

    id: str
    change: Change
    answer: Answer
    at: Moment
    task: str = ""
    queue: str = ""


class Fired(Struct, frozen=True):
    """Repeats that fired; False: another scheduler did."""

    firings: Sequence[Firing]
    won: Sequence[bool]
    at: Moment


class Locked(Struct, frozen=True):
    """The schedulers' lock changed hands: `acquired`, `lost`, `released`."""

    outcome: str


class Made(Struct, frozen=True):
    """Events that were made already."""

    events: list[JobEvent]


Note: TypeAlias = Made | Enqueued | Began | Settled | SentAway | Turned | Amended | Fired | Locked
Tell: TypeAlias = Callable[[Note], None]


def light(note: Note, behind: int) -> Note:
    """A note as it may wait: one that waits long, behind many others, is made into its events, which hold no arguments."""
    return note if behind < WAITING else Made(events(note))


def unheard(_: Note) -> None:
    """A `Tell` for where nobody watches."""


def size(note: Note) -> int:
    """How many events it makes at most."""
    match note:
        case Made(made):
            return len(made)
        case Enqueued(jobs) | SentAway(jobs):
            return len(jobs)
        case Began(runs):
            return len(runs)
        case Settled(settlements):
            return len(settlements)
        case Fired(firings):
            return sum(len(firing.jobs) for firing in firings)
        case Amended():
            return 1
        case Turned() | Locked():
            return 0


# ---------------------------------------------------------------- what a note means

_BACK = {
    Counter.ATTEMPTS: (Kind.RETRIED, ""),
    Counter.RESCHEDULES: (Kind.RESCHEDULED, Reason.HANDLER),
    Counter.BUSY: (Kind.RESCHEDULED, Reason.UNAVAILABLE),
    Counter.INTERRUPTIONS: (Kind.RESCHEDULED, Reason.SHUTDOWN),
    Counter.CRASHES: (Kind.CRASHED, ""),
}
_ENDS = {State.SUCCEEDED: Kind.SUCCEEDED, State.FAILED: Kind.FAILED, State.CANCELLED: Kind.CANCELLED}


def meaning(settlement: Settlement) -> tuple[Kind, str] | None:
    """What became of a run, and why it was moved; None for a claim that was given back untouched."""
    verdict = settlement.verdict
    if settlement.told:
        return Kind.CANCELLED, ""
    if (kind := _ENDS.get(verdict.state)) is not None:
        return kind, ""
    return None if verdict.counts is None else _BACK[verdict.counts]


def asked(note: Amended) -> tuple[Kind, str] | None:
    """What an amend came to. A running job that is cancelled ends later, and tells so itself."""
    match note.change, note.answer:
        case Move(), Answer.DONE | Answer.ASKED:
            return Kind.RESCHEDULED, Reason.API
        case Cancel(), Answer.DONE:
            return Kind.CANCELLED, ""
        case Revive(), Answer.DONE:
            return Kind.REVIVED, ""
    return None


def waited(claim: Claim, here: float) -> float:
    """Seconds from its due time to its start, `here` of them in the worker."""
    return max(0, claim.at - claim.due) / SECOND + here


# ---------------------------------------------------------------- events

SUCCEEDED = State.SUCCEEDED


def events(note: Note) -> list[JobEvent]:
    match note:
        case Made(made):
            return made
        case Enqueued(jobs, receipts, at):
            return [_enqueued(job, at) for job, receipt in zip(jobs, receipts, strict=True) if receipt.created]
        case Began():
            return _began(note)
        case Settled():
            return _settled(note)
        case SentAway(away, at):
            return [_sent_away(job, at) for job in away]
        case Fired(firings, won, at):
            return [_enqueued(job, at) for firing, mine in zip(firings, won, strict=True) if mine for job in firing.jobs]
        case Amended():
            return _amended(note)
        case Turned() | Locked():
            return []


def _enqueued(job: NewJob, at: Moment) -> JobEvent:
    return JobEvent(Kind.ENQUEUED, job.id, job.task, job.queue, at)


def _began(note: Began) -> list[JobEvent]:
    """Nearly all events come from here and from the next: so these two are written for speed."""
    made: list[JobEvent] = []
    at, worker, kind = note.at, note.worker, Kind.STARTED
    for run in note.runs:
        claim, here = run.claim, run.waited
        due, claimed = claim.due, claim.at
        wait = (claimed - due) / SECOND + here if claimed > due else here
        made.append(JobEvent(kind, claim.id, claim.task, claim.queue, at, worker, claim.attempts + 1, 0.0, wait))
    return made


def _settled(note: Settled) -> list[JobEvent]:
    made: list[JobEvent] = []
    at, worker, kind = note.at, note.worker, Kind.SUCCEEDED
    for settlement, took in zip(note.settlements, note.took, strict=True):
        if took and settlement.verdict.state is SUCCEEDED and not settlement.told:
            claim, seconds = settlement.claim, settlement.seconds
            made.append(JobEvent(kind, claim.id, claim.task, claim.queue, at, worker, claim.attempts + 1, seconds))
        elif (means := meaning(settlement) if took else (Kind.STALE, "")) is not None:
            made.append(_ended(settlement, means, worker, at))
    return made


def _ended(settlement: Settlement, means: tuple[Kind, str], worker: str, at: Moment) -> JobEvent:
    claim, when = settlement.claim, settlement.verdict.when
    kind, reason = means
    wait = when.wait / SECOND if when is not None and kind is Kind.RETRIED else 0.0
    attempt = claim.attempts + 1
    return JobEvent(kind, claim.id, claim.task, claim.queue, at, worker, attempt, settlement.seconds, wait, reason)


def _sent_away(job: Busy, at: Moment) -> JobEvent:
    if job.ended:
        return JobEvent(Kind.CANCELLED, job.id, job.task, job.queue, at)
    return JobEvent(Kind.RESCHEDULED, job.id, job.task, job.queue, at, "", 0, 0.0, 0.0, Reason.RESOURCE_BUSY)


def _amended(note: Amended) -> list[JobEvent]:
    means = asked(note)
    return [] if means is None else [JobEvent(means[0], note.id, note.task, note.queue, note.at, reason=means[1])]
