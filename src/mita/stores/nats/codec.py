"""What this store writes into messages, as MessagePack arrays, and how a stored job becomes a `Job`
or a `Claim`.

All records are arrays: a new field goes to the end and has a default, so that old records stay
readable. `stream.decode` reads them.

The fields of a stored job follow from the model (`stores.shared.record`): a new field of `Job` is
stored behind the others, without a change here."""

from collections.abc import Callable, Iterator
from itertools import takewhile
from sys import intern
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_type_hints

import msgspec
from msgspec import NODEFAULT, Struct

from mita.model.gate import Interval, Limit, StoredLimit
from mita.model.job import Claim, Job, Lasting, NewJob, Priority, State
from mita.model.outcome import TimelineEntry, TimelineKind
from mita.model.time import Moment
from mita.model.view import WorkerView
from mita.rules.fitting import shorter
from mita.rules.timeline import for_people, lengthened
from mita.stores.shared import record as fields

StreamSequence: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Microseconds: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
MOST_LANES = 32  # for the groups of `fair` in one priority of a queue
LaneNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_LANES)]

# The fields of `Job` at the beginning of a stored job, as in records that exist: names are neither
# moved nor removed, and a new field of `Job` is not added here.
_FIRST_FIELDS = """
    id task queue state priority due created payload options headers
    attempts reschedules busy interruptions crashes error result
    resource limit when_busy unique unique_for repeat fire_time progress stranded
    token worker started lease_until asked finished expires
"""
# Interned, because msgspec compares the names of arguments by identity first.
FIRST_FIELDS = [intern(name) for name in _FIRST_FIELDS.split()]


class NatsJobHead(Struct, array_like=True, gc=False):
    """The first fields of a `NatsJob`, which are enough to count it. No id: there is no job."""

    id: str
    task: str
    queue: str
    state: State
    priority: Priority
    due: Moment


class _OwnFields(Struct, frozen=True):
    """What this store keeps of a job beside the fields of `Job`.

    `age` is its position in the order of arrival. `asked_due` and `asked_keep` belong to `asked`.
    `record_seq`, in a ticket, is the sequence of the record for which the ticket was made (0: there
    was none); in a record it is 0. `gone` marks a deleted job; its record stays for a short time to
    overrule late tickets. `schedule_at` is when the server makes a ticket of a record that is a
    schedule. `lane` is where the tickets of its group of `fair` are (`stream.lanes`); 0: it has no
    group."""

    age: StreamSequence = 0
    asked_due: Moment = 0
    asked_keep: Lasting = 0
    events: tuple[TimelineEntry, ...] = ()
    once_values: dict[str, bytes] = {}
    record_seq: StreamSequence = 0
    gone: bool = False
    schedule_at: Moment = 0
    lane: LaneNumber = 0


def _stored_fields() -> Iterator[tuple[str, Any] | tuple[str, Any, Any]]:
    """Yields name, type and default of each field of a stored job, in the order of the array."""
    types = get_type_hints(Job, include_extras=True)
    added = [intern(name) for name in fields.JOB if name not in FIRST_FIELDS]
    for name in FIRST_FIELDS:
        default = fields.JOB[name].default
        yield (name, types[name]) if default is NODEFAULT else (name, types[name], default)
    for own in msgspec.structs.fields(_OwnFields):
        yield intern(own.name), own.type, own.default if own.default is not NODEFAULT else {}
    for name in added:
        yield name, types[name], fields.JOB[name].default


if TYPE_CHECKING:

    class NatsJob(Job, _OwnFields, frozen=True, kw_only=True):
        """A job as it is stored, in its record and in its ticket."""

else:  # `gc=False`: it contains nothing that could refer to it
    NatsJob = msgspec.defstruct(
        "NatsJob", _stored_fields(), array_like=True, gc=False, frozen=True, module=__name__
    )

_NO_NAMES: dict[str, Any] = {"id": "", "task": "", "queue": "", "payload": b""}
# The record of a job that was deleted.
NO_JOB = NatsJob(**_NO_NAMES, state=State.CANCELLED, priority=0, due=0, created=0, gone=True)


class QueueRecord(Struct, array_like=True):
    """A queue: when it was paused, the slots of its tickets (`stream.slots`), which are the
    priorities it ever used and others, the ends of its holds by key, and whether it has a limit,
    which is in another record (`QueueUseRecord`)."""

    name: str
    paused: Moment | None = None
    priorities: tuple[int, ...] = ()
    holds: dict[str, Moment] = {}
    limited: bool = False


class QueueUseRecord(Struct, array_like=True):
    """A limited queue: its limit, the ids of its running jobs (if the limit counts them), and the
    number of its rate. Nothing starts while it is not `counted`: then the jobs that ran before the
    limit was set, at `since`, are not among its running jobs yet."""

    queue: str
    limit: StoredLimit
    running: tuple[str, ...] = ()
    tat_us: Microseconds = 0
    counted: bool = False
    since: Moment = 0


class LanesRecord(Struct, array_like=True):
    """The groups of `fair` in one priority of a queue, and the lane of each."""

    queue: str
    priority: Priority
    groups: dict[str, LaneNumber] = {}


class ResourceKeyRecord(Struct, array_like=True):
    """A key: the ids of the running jobs that hold it, and how many jobs wait for it.
    `uncounted`: jobs may wait for it that are not in `waiting` (`stream.waiters` says which).
    `tat_us` and `woken_us` are the two numbers of its rate (`rules.gates`), `interval_us` and
    `burst` the rate of the latest start. `limit` is what an operator has set. `wake_at` is when the
    key's wake ticket is due; 0 if the key has none."""

    queue: str
    key: str
    holders: tuple[str, ...] = ()
    waiting: int = 0
    tat_us: Microseconds = 0
    woken_us: Microseconds = 0
    interval_us: Interval = 0
    burst: Limit = 1
    limit: StoredLimit | None = None
    wake_at: Moment = 0
    uncounted: bool = False

    @property
    def may_have_waiters(self) -> bool:
        """True if jobs may wait for this key."""
        return self.waiting > 0 or self.uncounted


class WaiterRecord(Struct, array_like=True):
    """A job that waits for a resource key, and what decides its turn. `counted`: it is one of those
    that the key's record counts."""

    id: str
    queue: str
    priority: int
    due: Moment
    age: int
    counted: bool = True


class UniqueKeyRecord(Struct, array_like=True):
    """The job that has a unique key. `until` is how long the key stays taken after that job has
    ended, or whatever becomes of the job if it was enqueued with a throttle."""

    id: str
    until: Moment | None = None


class SharedOnceRecord(Struct, array_like=True):
    """A `once` value that all jobs share, and when it expires."""

    value: bytes
    until: Moment


HistoryRow: TypeAlias = tuple[str, str, list[int]]  # queue, task, and the numbers


class WorkerRecord(Struct, array_like=True):
    """A worker's last heartbeat, and until when it counts as alive."""

    worker: WorkerView
    until: Moment


class AuditRecord(Struct, array_like=True, frozen=True, gc=False):
    """An entry of the audit log, packed, and when it was written."""

    id: str
    at: Moment
    entry: bytes


class LockRecord(Struct, array_like=True):
    """The holder of a lock, and until when it holds it."""

    holder: str
    until: Moment


class ClaimListRecord(Struct, array_like=True):
    """Jobs that were claimed together, given by the subjects of their records. None of their leases
    ends before `until`."""

    until: Moment
    records: tuple[str, ...]


class ClaimRef(Struct, frozen=True, array_like=True, gc=False):
    """What any store needs to settle a claim: subject and sequence of the job's record, its claim
    list, and the record as it was claimed. `holds_nothing`: the job has keys, but no record of them
    names it, because they have only rates. `key_seq` is the sequence of the record of its only key,
    if that names nothing but this job (`stream.single_keys`); else 0."""

    subject: str
    seq: int
    list_id: str
    record: NatsJob
    holds_nothing: bool = False
    key_seq: int = 0


pack = msgspec.msgpack.Encoder().encode


def _call(struct: type[Struct], values: dict[str, str], *, by_position: bool = True) -> str:
    """Returns the text of a call that makes a struct, by position as far as possible."""
    names = struct.__struct_fields__
    first = list(takewhile(values.__contains__, names)) if by_position else []
    named = [f"{name}={values[name]}" for name in names if name in values and name not in first]
    return f"{struct.__name__}({', '.join([values[name] for name in first] + named)})"


def _compiled(text: str) -> Any:
    """Generated: a loop over the fields takes several times as long, and these run once for every
    job. The text consists of field names of our own structs."""
    names = {"NatsJob": NatsJob, "Job": Job, "Claim": Claim, "QUEUED": State.QUEUED}
    return eval(text, names | _ADDED)  # noqa: S307


_ADDED = {name: field.default for name, field in fields.JOB.items() if name not in FIRST_FIELDS}
_NEW = {name: f"new.{name}" for name in fields.NEW}
_NEW |= {"state": "QUEUED", "due": "new.when.moment(now)", "created": "now", "age": "age"}
_CLAIM = {name: f"record.{name}" for name in fields.CLAIM} | {"at": "at", "ref": "ref"}
_JOB = {name: f"record.{name}" for name in fields.JOB}

# The record of a new job that is enqueued at `now`, with this position in the order of arrival.
as_record: Callable[[NewJob, Moment, int], NatsJob]
# Most jobs have none of the added fields, and each argument costs more than a comparison.
_FIRST_NEW = {name: text for name, text in _NEW.items() if name not in _ADDED}
_IS_PLAIN = " and ".join(f"new.{name} == {name}" for name in _ADDED if name in fields.NEW)
_EITHER = f"{_call(NatsJob, _FIRST_NEW)} if {_IS_PLAIN} else {_call(NatsJob, _NEW)}"
as_record = _compiled(f"lambda new, now, age: {_EITHER}")
# The claim of a job that was claimed at `at`.
as_claim: Callable[[NatsJob, Moment, ClaimRef], Claim]
as_claim = _compiled(f"lambda record, at, ref: {_call(Claim, _CLAIM)}")
# The job as users see it.
as_job: Callable[[NatsJob], Job]
as_job = _compiled(f"lambda record: {_call(Job, _JOB, by_position=False)}")


def timeline_with(
    record: NatsJob,
    now: Moment,
    kind: TimelineKind,
    note: str = "",
    worker: str | None = None,
    error: str = "",
) -> dict[str, Any]:
    """Returns the change that adds an entry to a job's timeline. The oldest entries fold into
    counts."""
    started = record.started if error else None
    return {
        "events": lengthened(record.events, TimelineEntry(now, kind, note, worker, error, started))
    }


def pack_within(record: NatsJob, max_bytes: int) -> bytes:
    """Returns a record in at most so many bytes, with as much of its timeline and error as fits.
    If even the rest is too long, the result is longer, and the caller must reject it."""
    body = pack(record)
    if len(body) > max_bytes:
        for story in shorter(record.events, record.error):
            body = pack(msgspec.structs.replace(record, events=story.events, error=story.error))
            if len(body) <= max_bytes:
                break
    return body


def timeline(record: NatsJob) -> list[TimelineEntry]:
    """Returns a job's timeline as users see it."""
    return for_people(record.events)
