"""Reading messages, also those that cannot be read.

The subject of a message says what it belongs to. So of a job whose record cannot be read, id and
queue are known: it is shown as a failed job, and its message stays where it is, with its bytes. Any
other record that cannot be read is taken for the least that it can mean."""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from mita.errors import StoreError
from mita.model.job import DEFAULT_PRIORITY, Job, State
from mita.model.repeat import Repeat
from mita.model.time import Moment
from mita.rules.readable import BAD, UNKNOWN, UNREADABLE, salvaged, unreadable, unreadable_repeat
from mita.rules.states import TERMINAL

from .codec import (
    Claimed,
    Glance,
    KeyRecord,
    LockHeld,
    Presence,
    QueueRecord,
    Record,
    Reservation,
    SharedOnceValue,
    Waiter,
)
from .subjects import NAMELESS, hashed, name, token

S = TypeVar("S", bound=Struct)

_record = msgspec.msgpack.Decoder(Record).decode
_glance = msgspec.msgpack.Decoder(Glance).decode
_queue = msgspec.msgpack.Decoder(QueueRecord).decode
_key = msgspec.msgpack.Decoder(KeyRecord).decode
_waiter = msgspec.msgpack.Decoder(Waiter).decode
_reservation = msgspec.msgpack.Decoder(Reservation).decode
_memo = msgspec.msgpack.Decoder(SharedOnceValue).decode
_presence = msgspec.msgpack.Decoder(Presence).decode
_lock = msgspec.msgpack.Decoder(LockHeld).decode
_claimed = msgspec.msgpack.Decoder(Claimed).decode
_repeat = msgspec.msgpack.Decoder(Repeat).decode
_anything = msgspec.msgpack.Decoder().decode

_OTHERS = {
    "q": _queue,
    "k": _key,
    "b": _waiter,
    "u": _reservation,
    "e": _repeat,
    "l": _lock,
    "w": _presence,
    "g": _memo,
    "c": _claimed,
}  # by the letter in their subjects

ALL_PRIORITIES = tuple(range(10))
# what an empty message at a home says
NO_JOB = Record("", "", "", State.CANCELLED, 0, 0, 0, b"", gone=True)


def is_unreadable(record: Record) -> bool:
    """Whether this stands for a record that cannot be read."""
    return record.error is not None and record.created == 0 and record.error.startswith(UNREADABLE)


def can_be_read(letter: str, body: bytes) -> bool:
    """Whether a record that is no job can be read."""
    try:
        _OTHERS[letter](body)
    except BAD:
        return False
    return True


def read_record(body: bytes, subject: str) -> Record:
    """The record of a job. One that cannot be read is a failed job of which id and queue are those
    of the subject."""
    if not body:
        return NO_JOB
    try:
        record = _record(body)
    except BAD as error:
        return _lost(body, subject, str(error))
    id = record.id
    if (
        (id and subject.endswith(id) and f".{record.queue}." in subject)
        or record.gone
        or _named(record, subject)
    ):
        if record.state is State.QUEUED or _makes_sense(record):
            return record
        return _lost(body, subject, "its state and its times contradict each other")
    return _lost(body, subject, "it names another job than its subject does")


def _named(record: Record, subject: str) -> bool:
    """Whether the subject is that of this job, also where its names are escaped."""
    return subject.endswith(f".{token(record.id)}") and f".{token(record.queue)}." in subject


def _makes_sense(record: Record) -> bool:
    if record.state is State.RUNNING:
        return record.lease_until is not None
    return record.state is not State.BLOCKED or record.resource is not None


def read_glance(body: bytes, subject: str) -> Glance:
    """The same, only what is needed to count it."""
    try:
        return _glance(body)
    except BAD:
        *_, queue, _, id = subject.split(".")
        return Glance(name(id), UNKNOWN, name(queue), State.FAILED, DEFAULT_PRIORITY, 0)


def _lost(body: bytes, subject: str, reason: str) -> Record:
    *_, queue, _, id = subject.split(".")
    job = salvaged(_parts(body, Record), reason)
    known = {field: getattr(job, field) for field in Job.__struct_fields__}
    known |= {"id": name(id), "queue": name(queue), "error": unreadable(reason), "created": 0}
    known["state"] = job.state if job.state in TERMINAL else State.FAILED
    return Record(**known)


def _parts(body: bytes, kind: type[Struct]) -> dict[str, Any]:
    """What stands in the places of this record's fields, whatever it is."""
    try:
        found = _anything(body)
    except BAD:
        return {}
    names = [field.name for field in fields(kind)]
    return dict(zip(names, found, strict=False)) if isinstance(found, list) else {}


def _part(body: bytes, kind: type[Struct], field: str, wanted: Any, otherwise: Any) -> Any:
    try:
        return msgspec.convert(_parts(body, kind)[field], wanted)
    except (KeyError, *BAD):
        return otherwise


def read_queue(body: bytes, subject: str) -> QueueRecord:
    """One that cannot be read may have jobs of any priority, and is paused if that can be read."""
    queue = name(subject.rsplit(".", 1)[1])
    try:
        record = _queue(body)
        if record.name == queue and all(
            priority in ALL_PRIORITIES for priority in record.priorities
        ):
            return record
    except BAD:
        pass
    paused = _part(body, QueueRecord, "paused", Moment | None, None)
    return QueueRecord(
        queue, paused, ALL_PRIORITIES, _part(body, QueueRecord, "holds", dict[str, Moment], {})
    )


def is_guess(record: QueueRecord) -> bool:
    """Whether this stands for the record of a queue that cannot be read."""
    return record.priorities is ALL_PRIORITIES


def read_key(body: bytes, subject: str) -> KeyRecord | None:
    """None when it cannot be read: see `indexes.key_of`."""
    try:
        record = _key(body)
    except BAD:
        return None
    return record if subject.endswith(f".{token(record.queue)}.{hashed(record.key)}") else None


def read_waiter(body: bytes, subject: str) -> Waiter:
    """One that cannot be read goes first in its line."""
    *_, queue, _, priority, id = subject.split(".")
    try:
        waiter = _waiter(body)
    except BAD:
        return Waiter(name(id), name(queue), int(priority), 0, 0)
    return waiter if waiter.id == name(id) else Waiter(name(id), name(queue), int(priority), 0, 0)


def read_reservation(body: bytes) -> Reservation | None:
    """One that cannot be read reserves nothing."""
    try:
        return _reservation(body)
    except BAD:
        return None


def read_memo(body: bytes) -> SharedOnceValue:
    """One that cannot be read is not taken for one that is not there: its effect would happen
    twice."""
    try:
        return _memo(body)
    except BAD as error:
        raise StoreError(
            f"what was remembered for all jobs cannot be read: {error}", transient=False
        ) from error


def read_presence(body: bytes) -> Presence | None:
    try:
        return _presence(body)
    except BAD:
        return None


def read_lock(body: bytes) -> LockHeld | None:
    """One that cannot be read is held by nobody: a lock only spares work."""
    try:
        return _lock(body)
    except BAD:
        return None


def read_claimed(body: bytes) -> Claimed | None:
    try:
        return _claimed(body)
    except BAD:
        return None


def read_repeat(body: bytes, subject: str) -> Repeat:
    """One that cannot be read is parked. Its key is the hash in its subject, unless the key itself
    can be read."""
    hash = subject.rsplit(".", 1)[1]
    try:
        repeat = _repeat(body)
        if hashed(repeat.key) == hash:
            return repeat
        reason = "it names another repeat than its subject does"
    except BAD as error:
        reason = str(error)
    return unreadable_repeat(NAMELESS + hash, reason)
