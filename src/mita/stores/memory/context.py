"""All that a memory store knows, and one act upon it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from mita import forks
from mita.model.job import Claim, Job, State
from mita.model.outcome import Busy, TimelineEntry
from mita.model.repeat import Repeat
from mita.model.time import Moment, Wait
from mita.model.view import WorkerView
from mita.ports.clock import Clock
from mita.ports.pubsub import Subscription
from mita.rules.states import TERMINAL
from mita.rules.timeline import lengthened

from .index import Index, Place
from .notify import Notifier


class Record(Struct):
    """A job and what only its store knows of it. `age` is its place in the order of arrival."""

    job: Job
    age: int
    asked_due: Moment = 0
    asked_keep: Wait = 0
    events: tuple[TimelineEntry, ...] = ()
    memos: dict[str, bytes] = field(default_factory=dict)


class Reservation(Struct, frozen=True):
    """Who holds a unique key: a living job, or until that moment one that has ended."""

    id: str
    until: Moment | None = None


class SharedOnceValue(Struct, frozen=True):
    value: bytes
    until: Moment


class Presence(Struct, frozen=True):
    """A worker as it described itself, and until when that is believed."""

    worker: WorkerView
    until: Moment


class LockHeld(Struct, frozen=True):
    holder: str
    until: Moment


class MemoryState:
    """What several `MemoryStore`s, on whatever threads and event loops, have in common."""

    def __init__(self) -> None:
        self.lock = forks.guarded(Lock())
        self.latest: Moment = 0
        self.arrivals = 0
        self.records: dict[str, Record] = {}
        self.index = Index()
        # every queue there is, and since when it is paused
        self.queues: dict[str, Moment | None] = {}
        self.unique: dict[tuple[str, str], Reservation] = {}
        self.holds: dict[Place, Moment] = {}
        self.shared: dict[str, SharedOnceValue] = {}
        self.repeats: dict[str, Repeat] = {}
        self.workers: dict[str, Presence] = {}
        self.locks: dict[str, LockHeld] = {}
        self.bells: set[Notifier] = set()
        self.ears: dict[Subscription, asyncio.AbstractEventLoop] = {}

    @contextmanager
    def act(self, clock: Clock) -> Iterator["Act"]:
        """One atomic act: nobody else is here, time stands still, and sleepers are woken when it is
        over."""
        with self.lock:
            self.latest = max(self.latest, clock.now())
            act = Act(self, self.latest)
            try:
                yield act
            finally:  # one item that is rejected undoes none of the others
                for bell in self.bells:
                    bell.ring(act.rings)


class Act:
    """What the verbs are written in: the state, the moment, and the queues to ring for."""

    def __init__(self, state: MemoryState, now: Moment) -> None:
        self.state = state
        self.now = now
        self.rings: set[str] = set()
        self.busy: list[Busy] = []

    def add(self, job: Job) -> None:
        self.state.arrivals += 1
        record = self.state.records[job.id] = Record(job, self.state.arrivals)
        self.state.index.add(job, record.age)

    def change(self, record: Record, **changes: Any) -> Job:
        """The only way in which a job changes."""
        self.state.index.remove(record.job, record.age)
        record.job = replace(record.job, **changes)
        self.state.index.add(record.job, record.age)
        return record.job

    def forget(self, record: Record) -> None:
        self.state.index.remove(record.job, record.age)
        del self.state.records[record.job.id]

    def note(
        self, record: Record, kind: str, note: str = "", worker: str | None = None, error: str = ""
    ) -> None:
        """A line in the job's timeline."""
        started = record.job.started if error else None
        record.events = lengthened(
            record.events, TimelineEntry(self.now, kind, note, worker, error, started)
        )

    def has_ended(self, id: str) -> bool:
        """Whether a job is at its end, or gone."""
        record = self.state.records.get(id)
        return record is None or record.job.state in TERMINAL

    def held_by(self, claim: Claim) -> Record | None:
        """The job this claim still holds: the fence before everything that a run may write."""
        record = self.state.records.get(claim.id)
        if (
            record is None
            or record.job.state is not State.RUNNING
            or record.job.token != claim.token
        ):
            return None
        return record
