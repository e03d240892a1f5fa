"""What engine and client note down, as they have it at hand: one note for a whole batch, so that a
job costs next to nothing. Whoever wants events makes bunches of a note (`bunches`), and single ones
of those when somebody reads them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from mita.model.event import EventBatch, Kind, MoveReason
from mita.model.job import Claim, NewJob, Receipt, State
from mita.model.outcome import (
    Answer,
    Busy,
    CancelJob,
    Change,
    Counter,
    RescheduleJob,
    RetryJob,
    Settlement,
)
from mita.model.repeat import Firing
from mita.model.time import SECOND, Moment


class Enqueued(Struct, frozen=True):
    """Jobs that were taken in, or not, because an earlier one has their unique key."""

    jobs: Sequence[NewJob]
    receipts: Sequence[Receipt]
    at: Moment


class Begun(Struct, frozen=True, gc=False):
    """A run that began, and how many seconds its claim waited for a slot."""

    claim: Claim
    waited: float


class Began(Struct):
    """Runs that began. Not frozen: whoever first makes bunches of it leaves them here for the
    others, and beside them the runs of jobs that were given a time."""

    runs: Sequence[Begun]
    worker: str
    at: Moment
    bunched: list[EventBatch] | None = None
    timed: Sequence[Begun] = ()


class Settled(Struct):
    """Claims that were put down; False: too late. Those that have their `start` with them began
    since the last note. As above."""

    settlements: Sequence[Settlement]
    took: Sequence[bool]
    worker: str
    at: Moment
    bunched: list[EventBatch] | None = None
    timed: Sequence[Begun] = ()


class Ahead(Struct, frozen=True):
    """What will be noted if the store takes all of it. Whoever will want the bunches makes them
    now: what they are made of is still in the processor's cache, and has long left it when the
    store has answered."""

    note: Settled


class SentAway(Struct, frozen=True):
    """Jobs that a claim met and that found their resource key taken."""

    jobs: Sequence[Busy]
    at: Moment


class Turned(Struct, frozen=True):
    """One round trip of a worker: how long it took, what it put down, and what it was given, if it
    asked for any."""

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
    """The schedulers' lock was asked for or given back: `acquired`, `held` (by another), `lost`,
    `released`."""

    outcome: str


class StoreFailed(Struct, frozen=True):
    """The store could not do this."""

    operation: str


class Made(Struct, frozen=True):
    """What a note came to, with no arguments and results hanging on it any more: so it may wait."""

    bunches: list[EventBatch]


Signal: TypeAlias = (
    Made
    | Ahead
    | Enqueued
    | Began
    | Settled
    | SentAway
    | Turned
    | Amended
    | Fired
    | Locked
    | StoreFailed
)
Emit: TypeAlias = Callable[[Signal], None]


def ignore_signal(_: Signal) -> None:
    """A `Emit` for where nobody watches."""


def size(note: Signal) -> int:
    """How many events it makes at most."""
    match note:
        case Enqueued() | SentAway():
            return len(note.jobs)
        case Made(made):
            return sum(bunch.size for bunch in made)
        case Began(runs):
            return len(runs)
        case Settled(settlements):
            return 2 * len(settlements)
        case Fired(firings):
            return sum(len(firing.jobs) + bool(firing.dropped) for firing in firings)
        case Amended():
            return 1
        case Ahead() | Turned() | Locked() | StoreFailed():
            return 0


def settled(ahead: Settled, took: Sequence[bool]) -> Settled:
    """The note that was seen ahead, or a new one where some came too late."""
    if not all(took):
        return Settled(ahead.settlements, took, ahead.worker, ahead.at)
    ahead.took = took
    return ahead


# ---------------------------------------------------------------- what a note means

_BACK = {
    Counter.ATTEMPTS: (Kind.RETRIED, ""),
    Counter.RESCHEDULES: (Kind.RESCHEDULED, MoveReason.HANDLER),
    Counter.BUSY: (Kind.RESCHEDULED, MoveReason.UNAVAILABLE),
    Counter.INTERRUPTIONS: (Kind.RESCHEDULED, MoveReason.SHUTDOWN),
    Counter.CRASHES: (Kind.CRASHED, ""),
}
_ENDS = {
    State.SUCCEEDED: Kind.SUCCEEDED,
    State.FAILED: Kind.FAILED,
    State.CANCELLED: Kind.CANCELLED,
}


def meaning(settlement: Settlement) -> tuple[Kind, str] | None:
    """What became of a run, and why it was moved; None for a claim that was given back
    untouched."""
    verdict = settlement.verdict
    if settlement.told:
        return Kind.CANCELLED, ""
    if (kind := _ENDS.get(verdict.state)) is not None:
        return kind, ""
    return None if verdict.counts is None else _BACK[verdict.counts]


def asked(note: Amended) -> tuple[Kind, str] | None:
    """What an amend came to. A running job that is cancelled ends later, and tells so itself."""
    match note.change, note.answer:
        case RescheduleJob(), Answer.DONE | Answer.ASKED:
            return Kind.RESCHEDULED, MoveReason.API
        case CancelJob(), Answer.DONE:
            return Kind.CANCELLED, ""
        case RetryJob(), Answer.DONE:
            return Kind.REVIVED, ""
    return None


def waited(claim: Claim, here: float) -> float:
    """Seconds from its due time to its start, `here` of them in the worker."""
    return max(0, claim.at - claim.due) / SECOND + here
