"""Reads the fields of records, and shows what can be read of a record that is damaged.

A record that cannot be read is shown as a failed job whose error begins with `UnreadableRecord` (a
repeat is shown as parked). A claim or a reap that meets one sets it aside. Nothing of it is
deleted: `Store.raw` returns its bytes."""

from collections.abc import Mapping
from functools import cache
from typing import Any, get_type_hints

import msgspec
from msgspec.structs import fields

from mita.model.job import DEFAULT_PRIORITY, Job, State
from mita.model.outcome import TimelineEntry
from mita.model.repeat import Repeat, RepeatState
from mita.model.time import DAY, Wait

from .states import TERMINAL

UNREADABLE = "UnreadableRecord"
SET_ASIDE_KEEP: Wait = 30 * DAY  # for how long an unreadable record is kept after it was set aside
UNKNOWN = "(unreadable)"  # in place of a name that cannot be read
# what reading such a record raises
BAD = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)

_STAND_INS: dict[str, Any] = {
    "id": UNKNOWN,
    "task": UNKNOWN,
    "queue": UNKNOWN,
    "state": State.FAILED,
    "priority": DEFAULT_PRIORITY,
    "due": 0,
    "created": 0,
    "payload": b"",
} | {field.name: field.default for field in fields(Job) if field.default is not msgspec.NODEFAULT}


@cache
def _types(kind: type[Job]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def is_unreadable(job: Job) -> bool:
    """Whether this job's record cannot be read."""
    return job.error is not None and job.error.startswith(UNREADABLE)


def read_job(found: Mapping[str, Any], kind: type[Job] = Job) -> Job:
    """Returns the job with these fields. If they cannot be read, it is a failed job with the fields
    that can. `kind` may have more fields than a job, which must be readable too."""
    read = _read(found, kind)
    return read if isinstance(read, Job) else salvaged(found, read, kind)


def problem(found: Mapping[str, Any], kind: type[Job] = Job) -> str | None:
    """Returns why a job with these fields cannot be read; None if it can."""
    read = _read(found, kind)
    return None if isinstance(read, Job) else salvaged(found, read, kind).error


def _read(found: Mapping[str, Any], kind: type[Job]) -> Job | str:
    """Returns the job, or what is wrong with it that no single field shows."""
    try:
        job = msgspec.convert(found, kind)
    except BAD:
        return ""
    return _contradiction(job) or (job if _is_text(job) else "")


def salvaged(found: Mapping[str, Any], reason: str = "", kind: type[Job] = Job) -> Job:
    """Returns a failed job with the readable fields. An ended job keeps its state."""
    kept, wrong = dict(_STAND_INS), [reason] if reason else []
    for name, wanted in _types(kind).items():
        if name not in found:
            continue
        try:
            kept[name] = _checked(found[name], wanted)
        except BAD as error:
            wrong.append(f"{name}: {error}")
    kept["state"] = kept["state"] if kept["state"] in TERMINAL else State.FAILED
    kept["error"] = unreadable("; ".join(wrong))
    return Job(**{name: kept[name] for name in Job.__struct_fields__})


def _contradiction(job: Job) -> str:
    """Finds a combination of fields that no store writes: no verb would find such a job again."""
    if job.state is State.RUNNING and job.lease_until is None:
        return "it is running without a lease"
    if job.state is State.BLOCKED and job.resource is None and job.blocked_at is None:
        return "it is blocked without a key"
    return ""


def unreadable(reason: str) -> str:
    """Returns the error text of a record that cannot be read."""
    return f"{UNREADABLE}: {reason}"


def _checked(value: Any, kind: Any) -> Any:
    if isinstance(value, str):
        value.encode()  # half a character is no text
    return msgspec.convert(value, kind)


def _is_text(job: Job) -> bool:
    texts = (
        job.id,
        job.task,
        job.queue,
        job.error,
        job.resource,
        job.unique,
        job.repeat,
        job.worker,
        job.asked,
        job.fair,
        job.blocked_at,
        job.group,
    )
    return all(text is None or text.isascii() or _can_be_written(text) for text in texts)


def _can_be_written(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_repeat(found: Mapping[str, Any]) -> Repeat:
    """Returns the repeat with these fields. If they cannot be read, it is parked, and its reason
    says why."""
    try:
        repeat: Repeat = msgspec.convert(found, Repeat)
        repeat.key.encode(), repeat.reason.encode(), repeat.pause_reason.encode()
    except BAD as error:
        return unreadable_repeat(found.get("key"), str(error))
    return repeat


def unreadable_repeat(key: object, reason: str) -> Repeat:
    """Returns a parked repeat for a record that cannot be read."""
    name = key if isinstance(key, str) and _can_be_written(key) else UNKNOWN
    return Repeat(
        key=name, spec=b"", cursor=None, state=RepeatState.PARKED, reason=unreadable(reason)
    )


def is_lost(repeat: Repeat) -> bool:
    """Whether this repeat's record cannot be read."""
    return repeat.state is RepeatState.PARKED and repeat.reason.startswith(UNREADABLE)


def read_event(found: Mapping[str, Any]) -> TimelineEntry:
    """Returns one line of a timeline. A line that cannot be read says so."""
    try:
        event: TimelineEntry = msgspec.convert(found, TimelineEntry)
        event.kind.encode(), event.note.encode(), (event.worker or "").encode()
    except BAD as error:
        return TimelineEntry(0, "unreadable", f"this line cannot be read: {error}")
    return event
