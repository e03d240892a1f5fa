"""The file, and what is in it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from mita.errors import StoreMissing
from mita.model.audit import AuditEntry
from mita.model.gate import StoredLimit
from mita.model.job import Claim, Job, State
from mita.model.outcome import TimelineEntry
from mita.model.repeat import Repeat
from mita.model.time import Moment, Wait
from mita.model.view import WorkerView
from mita.ports.pubsub import EventMessage
from mita.rules.gates import keys_of
from mita.rules.timeline import lengthened

Key = tuple[str, str | None]  # a queue, and a key in it; None: the queue itself


class Record(Struct):
    """A job, and what is stored beside it. `age` is its number in the order of arrival."""

    job: Job
    age: int
    asked_due: Moment = 0
    asked_keep: Wait = 0
    events: tuple[TimelineEntry, ...] = ()
    once_values: dict[str, bytes] = field(default_factory=dict)

    def change(self, **changes: Any) -> None:
        self.job = replace(self.job, **changes)


class Until(Struct, frozen=True):
    """Something that is valid until a point in time; None: for ever."""

    value: Any
    until: Moment | None = None


class Level(Struct, frozen=True):
    """The two numbers of a rate (`rules.gates`), and the rate that they were last used with."""

    tat_us: int = 0
    woken_us: int = 0
    interval_us: int = 0
    burst: int = 1


class Turns(Struct):
    """Whose turn it is among the groups of one queue and priority (`rules.shares`)."""

    virtual: int = 0
    finished: dict[str, int] = field(default_factory=dict)  # by group


class Content(Struct):
    """All that is stored. `now` is the time of the current operation; it never goes back. `ageing`
    is that of the store that is at work."""

    now: Moment = 0
    ageing: Wait | None = None
    arrivals: int = 0
    records: dict[str, Record] = field(default_factory=dict)
    queues: dict[str, Moment | None] = field(default_factory=dict)  # since when each is paused
    unique: dict[Key, Until] = field(default_factory=dict)  # the id of the job that has the key
    holds: dict[Key, Moment] = field(default_factory=dict)
    limits: dict[Key, StoredLimit] = field(default_factory=dict)
    levels: dict[Key, Level] = field(default_factory=dict)
    turns: dict[str, dict[int, Turns]] = field(default_factory=dict)  # of queues with groups
    once_values: dict[str, Until] = field(default_factory=dict)
    repeats: dict[str, Repeat] = field(default_factory=dict)
    workers: dict[str, tuple[WorkerView, Moment]] = field(default_factory=dict)
    locks: dict[str, Until] = field(default_factory=dict)
    # the length of a minute or an hour, its start, queue and task, and the numbers
    history: dict[tuple[Wait, Moment, str, str], list[int]] = field(default_factory=dict)
    notified: dict[str, int] = field(default_factory=dict)  # how often each topic was notified
    subscribers: dict[str, tuple[str | None, Moment]] = field(default_factory=dict)
    audit: dict[str, AuditEntry] = field(default_factory=dict)
    messages: list[EventMessage] = field(default_factory=list)
    dropped: int = 0  # messages that are not kept any more

    def notify(self, topic: str) -> None:
        self.notified[topic] = self.notified.get(topic, 0) + 1

    def note(
        self, record: Record, kind: str, note: str = "", worker: str | None = None, error: str = ""
    ) -> None:
        """Add a line to the job's timeline."""
        started = record.job.started if error else None
        entry = TimelineEntry(self.now, kind, note, worker, error, started)
        record.events = lengthened(record.events, entry)

    def held_by(self, claim: Claim) -> Record | None:
        """The record of a claimed job; None if the claim's token is stale."""
        record = self.records.get(claim.id)
        if record is None or record.job.state is not State.RUNNING:
            return None
        return record if record.job.token == claim.token else None

    def holders(self, key: Key) -> list[Record]:
        """The running jobs that have this key."""
        return [
            record
            for record in self.records.values()
            if record.job.state is State.RUNNING and record.job.queue == key[0]
            if key[1] is None or key[1] in keys_of(record.job.resource, record.job.gates)
        ]

    def waiting(self, key: Key) -> list[Record]:
        """The jobs that wait at this key, in the order in which they are woken."""
        found = [
            record
            for record in self.records.values()
            if record.job.state is State.BLOCKED
            and (record.job.queue, record.job.blocked_at) == key
        ]
        return sorted(found, key=lambda r: (-r.job.priority, r.job.due, r.age))

    def waited_for(self) -> set[Key]:
        """The keys at which jobs wait."""
        jobs = [record.job for record in self.records.values()]
        return {(job.queue, job.blocked_at) for job in jobs if job.state is State.BLOCKED}


_decode = msgspec.msgpack.Decoder(Content).decode
_encode = msgspec.msgpack.Encoder().encode


class ContentFile:
    """Reads and writes the file. Several processes may use it: each change holds a lock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        with self.change():
            pass

    def must_exist(self) -> None:
        if not self.path.exists():
            raise StoreMissing(f"there is no Mita in {self.path}")

    def read(self) -> Content:
        return _decode(self.path.read_bytes()) if self.path.exists() else Content()

    @contextmanager
    def change(self) -> Iterator[Content]:
        """Read the file, and write it at the end of the block."""
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = self.read()
            try:
                yield content
            finally:  # a job that is rejected does not undo the others
                new = self.path.with_suffix(".new")
                new.write_bytes(_encode(content))
                new.replace(self.path)
