"""Decoding stored messages, including messages that cannot be read.

The subject of a message says what it belongs to. So the id and the queue of a job are known even if
its record cannot be read: the job is shown as failed, and its message stays as it is. Any other
unreadable record is replaced by the most harmless reading, which each function names."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from mita.errors import StoreError
from mita.model.job import DEFAULT_PRIORITY, Job, State
from mita.model.repeat import Repeat
from mita.model.time import Moment
from mita.rules.gates import keys_of
from mita.rules.history import NUMBERS
from mita.rules.readable import BAD, UNKNOWN, UNREADABLE, salvaged, unreadable, unreadable_repeat
from mita.rules.states import TERMINAL
from mita.stores.nats.codec import (
    NO_JOB,
    AuditRecord,
    ClaimListRecord,
    HistoryRow,
    LanesRecord,
    LockRecord,
    NatsJob,
    NatsJobHead,
    QueueRecord,
    QueueUseRecord,
    ResourceKeyRecord,
    SharedOnceRecord,
    UniqueKeyRecord,
    WaiterRecord,
    WorkerRecord,
)

from .slots import is_slot
from .subjects import UNREADABLE_KEY, RecordKind, hashed, name, token

S = TypeVar("S", bound=Struct)

_decode_job = msgspec.msgpack.Decoder(NatsJob).decode
_decode_head = msgspec.msgpack.Decoder(NatsJobHead).decode
_decode_queue = msgspec.msgpack.Decoder(QueueRecord).decode
_decode_lanes = msgspec.msgpack.Decoder(LanesRecord).decode
_decode_queue_use = msgspec.msgpack.Decoder(QueueUseRecord).decode
_decode_resource_key = msgspec.msgpack.Decoder(ResourceKeyRecord).decode
_decode_waiter = msgspec.msgpack.Decoder(WaiterRecord).decode
_decode_unique_key = msgspec.msgpack.Decoder(UniqueKeyRecord).decode
_decode_shared_once = msgspec.msgpack.Decoder(SharedOnceRecord).decode
_decode_worker = msgspec.msgpack.Decoder(WorkerRecord).decode
_decode_lock = msgspec.msgpack.Decoder(LockRecord).decode
_decode_claim_list = msgspec.msgpack.Decoder(ClaimListRecord).decode
_decode_audit = msgspec.msgpack.Decoder(AuditRecord).decode
_decode_history = msgspec.msgpack.Decoder(list[HistoryRow]).decode
_decode_repeat = msgspec.msgpack.Decoder(Repeat).decode
_decode_any = msgspec.msgpack.Decoder().decode

# Every kind but jobs and the anchor.
SMALL_RECORDS: dict[RecordKind, Callable[[bytes], object]] = {
    RecordKind.QUEUE: _decode_queue,
    RecordKind.RESOURCE_KEY: _decode_resource_key,
    RecordKind.WAITER: _decode_waiter,
    RecordKind.UNIQUE_KEY: _decode_unique_key,
    RecordKind.REPEAT: _decode_repeat,
    RecordKind.LOCK: _decode_lock,
    RecordKind.WORKER: _decode_worker,
    RecordKind.SHARED_ONCE: _decode_shared_once,
    RecordKind.CLAIM_LIST: _decode_claim_list,
    RecordKind.WAKE: _decode_job,
    RecordKind.QUEUE_USE: _decode_queue_use,
    RecordKind.LANES: _decode_lanes,
    RecordKind.AUDIT: _decode_audit,
    RecordKind.HISTORY: _decode_history,
}

UNKNOWN_SLOTS = (-1,)  # of a queue whose record cannot be read


def is_unreadable(record: NatsJob) -> bool:
    """True if this record replaces one that cannot be read."""
    return record.error is not None and record.created == 0 and record.error.startswith(UNREADABLE)


def can_be_read(kind: RecordKind, body: bytes) -> bool:
    """True if a record of this kind (not a job) can be read."""
    try:
        SMALL_RECORDS[kind](body)
    except BAD:
        return False
    return True


def decode_job(body: bytes, subject: str) -> NatsJob:
    """Returns the record of a job. For an unreadable one it returns a failed job with the id and
    the queue of the subject."""
    if not body:
        return NO_JOB
    try:
        record = _decode_job(body)
    except BAD as error:
        return _unreadable_job(body, subject, str(error))
    id = record.id
    if (
        (id and subject.endswith(id) and f".{record.queue}." in subject)
        or record.gone
        or _is_named_by(record, subject)
    ):
        if record.state is State.QUEUED:
            return record
        if record.state is State.BLOCKED and record.blocked_at is None:
            record = replace(record, blocked_at=record.resource)  # version 0.1 had one key
        if _is_consistent(record):
            return record
        return _unreadable_job(body, subject, "its state and its times contradict each other")
    return _unreadable_job(body, subject, "it names another job than its subject does")


def _is_named_by(record: NatsJob, subject: str) -> bool:
    """True if the subject is the job's, also if its names are escaped."""
    return subject.endswith(f".{token(record.id)}") and f".{token(record.queue)}." in subject


def _is_consistent(record: NatsJob) -> bool:
    if record.state is State.RUNNING:
        return record.lease_until is not None
    if record.state is not State.BLOCKED:
        return True
    return record.blocked_at in keys_of(record.resource, record.gates)


def decode_job_head(body: bytes, subject: str) -> NatsJobHead:
    """As `decode_job`, but only the fields that are needed to count jobs."""
    try:
        return _decode_head(body)
    except BAD:
        *_, queue, _, id = subject.split(".")
        return NatsJobHead(name(id), UNKNOWN, name(queue), State.FAILED, DEFAULT_PRIORITY, 0)


def _unreadable_job(body: bytes, subject: str, reason: str) -> NatsJob:
    *_, queue, _, id = subject.split(".")
    job = salvaged(_raw_fields(body, NatsJob), reason)
    known = {field: getattr(job, field) for field in Job.__struct_fields__}
    known |= {"id": name(id), "queue": name(queue), "error": unreadable(reason), "created": 0}
    known["state"] = job.state if job.state in TERMINAL else State.FAILED
    return NatsJob(**known)


def _raw_fields(body: bytes, kind: type[Struct]) -> dict[str, Any]:
    """Returns the values at the positions of this struct's fields, unchecked."""
    try:
        found = _decode_any(body)
    except BAD:
        return {}
    names = [field.name for field in fields(kind)]
    return dict(zip(names, found, strict=False)) if isinstance(found, list) else {}


def raw_field(body: bytes, kind: type[Struct], field: str, wanted: Any, otherwise: Any) -> Any:
    """Returns one field of a record that cannot be read as a whole, or `otherwise`."""
    try:
        return msgspec.convert(_raw_fields(body, kind)[field], wanted)
    except (KeyError, *BAD):
        return otherwise


def decode_queue(body: bytes, subject: str) -> QueueRecord:
    """Returns the record of a queue. The slots of an unreadable one are unknown (`is_guessed`); it
    may have a limit, and is paused if that field can be read."""
    queue = name(subject.rsplit(".", 1)[1])
    try:
        record = _decode_queue(body)
        if record.name == queue and all(map(is_slot, record.priorities)):
            return record
    except BAD:
        pass
    paused = raw_field(body, QueueRecord, "paused", Moment | None, None)
    holds = raw_field(body, QueueRecord, "holds", dict[str, Moment], {})
    return QueueRecord(queue, paused, UNKNOWN_SLOTS, holds, limited=True)


def decode_queue_use(body: bytes, subject: str) -> QueueUseRecord | None:
    """Returns the limit of a queue and what runs in it; None if it is unreadable (see
    `queue_use.queue_use`)."""
    record = _decoded(_decode_queue_use, body)
    return record if record is not None and subject.endswith(f".{token(record.queue)}") else None


def decode_lanes(body: bytes) -> LanesRecord | None:
    """Returns the lanes of groups. In an unreadable record (None) no group has a lane yet."""
    return _decoded(_decode_lanes, body)


def is_guessed(record: QueueRecord) -> bool:
    """True if this record replaces one that cannot be read."""
    return record.priorities == UNKNOWN_SLOTS


def decode_resource_key(body: bytes, subject: str) -> ResourceKeyRecord | None:
    """Returns the record of a resource key, or None if it is unreadable (see
    `keys.resource_key_record`)."""
    record = _decoded(_decode_resource_key, body)
    if record is None or not subject.endswith(f".{token(record.queue)}.{hashed(record.key)}"):
        return None
    return record


def decode_waiter(body: bytes, subject: str) -> WaiterRecord:
    """Returns a job that waits for a key. An unreadable one comes first."""
    *_, queue, _, priority, id = subject.split(".")
    waiter = _decoded(_decode_waiter, body)
    if waiter is None or waiter.id != name(id):
        return WaiterRecord(name(id), name(queue), int(priority), 0, 0)
    return waiter


def decode_unique_key(body: bytes) -> UniqueKeyRecord | None:
    """Returns the record of a unique key. An unreadable one (None) reserves nothing."""
    return _decoded(_decode_unique_key, body)


def decode_shared_once(body: bytes) -> SharedOnceRecord:
    """Returns a shared `once` value. Raises StoreError for an unreadable one: if it counted as
    absent, its side effect would happen twice."""
    try:
        return _decode_shared_once(body)
    except BAD as error:
        raise StoreError(
            f"a `once` value for all jobs cannot be read: {error}", transient=False
        ) from error


def decode_history(body: bytes) -> list[HistoryRow]:
    """Returns the counts of a minute or an hour; none if they cannot be read."""
    try:
        rows = _decode_history(body) if body else []
    except BAD:
        return []
    return [row for row in rows if len(row[2]) == len(NUMBERS)]


def decode_worker(body: bytes) -> WorkerRecord | None:
    """Returns a worker's heartbeat, or None if it is unreadable."""
    return _decoded(_decode_worker, body)


def decode_lock(body: bytes) -> LockRecord | None:
    """Returns the record of a lock. An unreadable one (None) is free: a lock only saves work."""
    return _decoded(_decode_lock, body)


def decode_claim_list(body: bytes) -> ClaimListRecord | None:
    """Returns a claim list, or None if it is unreadable."""
    return _decoded(_decode_claim_list, body)


def decode_audit(body: bytes) -> AuditRecord | None:
    """Returns an entry of the audit log, or None if it is unreadable."""
    return _decoded(_decode_audit, body)


def decode_repeat(body: bytes, subject: str) -> Repeat:
    """Returns a repeat. An unreadable one is parked, and its key is made of the hash in its
    subject."""
    hash = subject.rsplit(".", 1)[1]
    try:
        repeat = _decode_repeat(body)
        if hashed(repeat.key) == hash:
            return repeat
        reason = "it names another repeat than its subject does"
    except BAD as error:
        reason = str(error)
    return unreadable_repeat(UNREADABLE_KEY + hash, reason)


def _decoded(decode: Callable[[bytes], S], body: bytes) -> S | None:
    try:
        return decode(body)
    except BAD:
        return None
