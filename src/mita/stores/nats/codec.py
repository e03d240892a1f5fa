"""What is written into messages: MessagePack by position, read and written here only."""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Struct

from mita.model.job import (
    Claim,
    Count,
    Job,
    Lasting,
    Limit,
    NewJob,
    Priority,
    State,
    Token,
    WhenBusy,
)
from mita.model.outcome import TimelineEntry
from mita.model.time import Moment
from mita.model.view import WorkerView
from mita.rules.fitting import shorter
from mita.rules.timeline import lengthened, told

Sequence: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Glance(Struct, array_like=True, gc=False):
    """The first fields of a `Record`: what is read to count it. One without an id stands for no
    job."""

    id: str
    task: str
    queue: str
    state: State
    priority: Priority
    due: Moment


class Record(Glance, array_like=True, gc=False):
    """A job, and what only this store knows of it.

    The fields up to `expires` are those of `Job`, in its order. `age` is its place in the order of
    arrival. `home`, in a ticket of the ready line, is the sequence of the home record it stands for
    (0: there was none). `gone` marks a job that is forgotten already and only keeps late tickets of
    its own from running it again. `fires` is when the server moves a home that is a schedule. The
    collector need not look at it: it holds nothing that could hold it."""

    created: Moment
    payload: bytes
    options: bytes = b""
    headers: bytes = b""
    attempts: Count = 0
    reschedules: Count = 0
    busy: Count = 0
    interruptions: Count = 0
    crashes: Count = 0
    error: str | None = None
    result: bytes | None = None
    resource: str | None = None
    limit: Limit = 1
    when_busy: WhenBusy = WhenBusy.WAIT
    unique: str | None = None
    unique_for: Lasting = 0
    repeat: str | None = None
    fire_time: Moment | None = None
    progress: bytes | None = None
    stranded: Moment | None = None
    token: Token = 0
    worker: str | None = None
    started: Moment | None = None
    lease_until: Moment | None = None
    asked: str | None = None
    finished: Moment | None = None
    expires: Moment | None = None
    age: Sequence = 0
    asked_due: Moment = 0
    asked_keep: Lasting = 0
    events: tuple[TimelineEntry, ...] = ()
    memos: dict[str, bytes] = {}
    home: Sequence = 0
    gone: bool = False
    fires: Moment = 0


class QueueRecord(Struct, array_like=True):
    """A queue: since when it is paused, which priorities it ever used, and the holds on its
    keys."""

    name: str
    paused: Moment | None = None
    priorities: tuple[int, ...] = ()
    holds: dict[str, Moment] = {}


class KeyRecord(Struct, array_like=True):
    """A resource key: the ids of the running jobs that hold it, and how many wait in its line."""

    queue: str
    key: str
    holders: tuple[str, ...] = ()
    waiting: int = 0


class Waiter(Struct, array_like=True):
    """A place in the line of a key."""

    id: str
    queue: str
    priority: int
    due: Moment
    age: int


class Reservation(Struct, array_like=True):
    """Who has a unique key: a living job, or until that moment one that has ended."""

    id: str
    until: Moment | None = None


class SharedOnceValue(Struct, array_like=True):
    value: bytes
    until: Moment


class Presence(Struct, array_like=True):
    worker: WorkerView
    until: Moment


class LockHeld(Struct, array_like=True):
    holder: str
    until: Moment


class Claimed(Struct, array_like=True):
    """Which jobs were claimed together, so that a reap need not read all homes: nothing before
    `until` is overdue."""

    until: Moment
    homes: tuple[str, ...]


class Ref(Struct, frozen=True, array_like=True, gc=False):
    """What a claim must know to be put down from any store object: where it stands, and the record
    as it was claimed."""

    home: str
    seq: int
    batch: str
    record: Record


pack = msgspec.msgpack.Encoder().encode


_JOB_FIELDS = Job.__struct_fields__
_CLAIM_FIELDS = tuple(name for name in Claim.__struct_fields__ if name not in ("at", "ref"))


def as_record(new: NewJob, now: Moment, age: int) -> Record:
    return Record(
        new.id,
        new.task,
        new.queue,
        State.QUEUED,
        new.priority,
        new.when.moment(now),
        now,
        new.payload,
        new.options,
        new.headers,
        resource=new.resource,
        limit=new.limit,
        when_busy=new.when_busy,
        unique=new.unique,
        unique_for=new.unique_for,
        repeat=new.repeat,
        fire_time=new.fire_time,
        age=age,
    )


def as_job(record: Record) -> Job:
    return Job(**{name: getattr(record, name) for name in _JOB_FIELDS})


def as_claim(record: Record, at: Moment, ref: Ref) -> Claim:
    """Positions, not names: this runs once for every job."""
    return Claim(
        record.id,
        record.token,
        at,
        record.task,
        record.queue,
        record.payload,
        record.options,
        record.headers,
        record.priority,
        record.due,
        record.created,
        record.attempts,
        record.reschedules,
        record.busy,
        record.interruptions,
        record.crashes,
        record.resource,
        record.unique,
        record.repeat,
        record.fire_time,
        record.progress,
        record.stranded,
        ref,
    )


def noted(
    record: Record,
    now: Moment,
    kind: str,
    note: str = "",
    worker: str | None = None,
    error: str = "",
) -> dict[str, Any]:
    """The changes that add a line to a job's timeline, whose oldest lines fold into counts."""
    started = record.started if error else None
    return {
        "events": lengthened(record.events, TimelineEntry(now, kind, note, worker, error, started))
    }


def cut(record: Record, most: int) -> bytes:
    """A record in at most so many bytes, with as much of its story as there is room for. What is
    longer even so is for the caller to reject."""
    body = pack(record)
    if len(body) > most:
        for story in shorter(record.events, record.error):
            body = pack(msgspec.structs.replace(record, events=story.events, error=story.error))
            if len(body) <= most:
                break
    return body


def timeline(record: Record) -> list[TimelineEntry]:
    return told(record.events)
