"""Between our nouns and what lies in Redis. `lua/include/record.lua` says how the two halves of a
job are laid out."""

from typing import Any, TypeAlias

import msgspec

from mita.model.job import (
    DEFAULT_PRIORITY,
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
from mita.model.outcome import TimelineEntry, Verdict
from mita.model.repeat import Repeat
from mita.model.time import NOW, Moment, When
from mita.rules.readable import (
    BAD,
    read_event,
    read_job,
    read_repeat,
    salvaged,
    unreadable,
    unreadable_repeat,
)
from mita.rules.timeline import told


class Fixed(msgspec.Struct, array_like=True):
    """What never changes of a job."""

    created: Moment
    due: Moment
    priority: int
    handle: bytes
    task: str
    resource: str | None
    limit: int
    when_busy: str
    unique: str | None
    unique_for: int
    repeat: str | None
    fire_time: Moment | None
    payload: bytes
    options: bytes
    headers: bytes


class Live(msgspec.Struct, array_like=True):
    """What changes of a job. False stands for none: Lua cannot keep a nil in a list."""

    state: str = "queued"
    token: Token = 0
    priority: Any = False
    due: Any = False
    attempts: Count = 0
    reschedules: Count = 0
    busy: Count = 0
    interruptions: Count = 0
    crashes: Count = 0
    worker: Any = False
    started: Any = False
    asked: Any = False
    asked_due: Any = False
    asked_keep: Any = False
    stranded: Any = False
    finished: Any = False
    expires: Any = False
    extras: bool = False


_pack = msgspec.msgpack.Encoder().encode
_live = msgspec.msgpack.Decoder(Live).decode
_Claimable: TypeAlias = tuple[
    Moment,
    Moment,
    Priority,
    bytes,
    str,
    str | None,
    Limit,
    WhenBusy,
    str | None,
    Lasting,
    str | None,
    Moment | None,
    bytes,
    bytes,
    bytes,
]
_claimable = msgspec.msgpack.Decoder(_Claimable).decode  # by position: it runs for each job
_any = msgspec.msgpack.Decoder().decode
UNTOUCHED = Live()
AGE, ID = slice(0, 8), slice(9, None)  # of a handle


def pack_new_job(job: NewJob) -> bytes:
    """The part of the fixed half that the client makes: the elements of a list without its head."""
    return _pack(
        (
            job.task,
            job.resource,
            job.limit,
            job.when_busy,
            job.unique,
            job.unique_for,
            job.repeat,
            job.fire_time,
            job.payload,
            job.options,
            job.headers,
        )
    )[1:]


def is_plain(job: NewJob) -> bool:
    """Due now, of the usual priority, without a key: what most jobs are."""
    return (
        job.when is NOW
        and job.priority == DEFAULT_PRIORITY
        and job.resource is None
        and job.unique is None
    )


def job_kind(job: NewJob, queue: int) -> bytes:
    """What the script must know to put the job in its place; nothing for a plain one of the first
    queue."""
    if queue == 1 and is_plain(job):
        return b""
    flag = (job.resource is not None) + 2 * (job.unique is not None)
    return _pack((queue, job.priority, job.when.wait, job.when.at, str(flag), job.unique))


def pack_verdict(said: Verdict) -> bytes:
    when, hold = said.when, said.hold
    return _pack(
        (
            said.state,
            None if when is None else when.wait,
            None if when is None else when.at,
            said.counts,
            said.error,
            said.keep,
            None if hold is None else hold.wait,
            None if hold is None else hold.at,
            said.stranded,
            said.event,
            said.note,
            said.failure,
            said.worker,
        )
    )


def when_args(when: When) -> tuple[int, int | str]:
    """A wait and a moment, '' for none."""
    return when.wait, "" if when.at is None else when.at


def first_claim(raw: bytes, queue: str, at: Moment) -> Claim:
    """The claim of a job that was never touched; its token is the moment. By position, not by name:
    it runs for each job."""
    (
        created,
        due,
        priority,
        handle,
        task,
        resource,
        _,
        _,
        unique,
        _,
        repeat,
        fire_time,
        payload,
        options,
        headers,
    ) = _claimable(raw)
    return Claim(
        handle[9:].decode(),
        at,
        at,
        task,
        queue,
        payload,
        options,
        headers,
        priority,
        due,
        created,
        0,
        0,
        0,
        0,
        0,
        resource,
        unique,
        repeat,
        fire_time,
        None,
        None,
        handle,
    )


def later_claim(claim: Claim, touched: bytes, progress: bytes | None) -> Claim:
    """The same of a job that has a past."""
    live = _live(touched)
    return msgspec.structs.replace(
        claim,
        token=live.token,
        priority=claim.priority if live.priority is False else live.priority,
        due=claim.due if live.due is False else live.due,
        attempts=live.attempts,
        reschedules=live.reschedules,
        busy=live.busy,
        interruptions=live.interruptions,
        crashes=live.crashes,
        progress=progress,
        stranded=_or_none(live.stranded),
    )


def as_job(row: list[Any], queue: str, id: str) -> Job:
    """One that cannot be read is a failed job with what of it can."""
    fixed, live = _parts(row[0], Fixed), _parts(row[1], Live) if row[1] is not None else {}
    if not fixed or (row[1] is not None and not live):
        return salvaged({"id": id, "queue": queue, **fixed}, "half of its record cannot be read")
    touched = {name: value for name, value in live.items() if value is not False}
    found = {**fixed, **touched, "id": id, "queue": queue, "result": row[3], "progress": row[4]}
    found["state"] = touched.get("state", State.QUEUED.value)
    found["error"] = None if row[2] is None else row[2].decode("utf-8", "surrogateescape")
    found["lease_until"] = (
        int(float(row[5])) if row[5] is not None else 0 if found["state"] == State.RUNNING else None
    )
    return read_job(found)


def _parts(packed: bytes, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """What stands in the places of one half, whatever it is; nothing if it is no list of that
    length."""
    try:
        found = _any(packed)
    except BAD:
        return {}
    names = kind.__struct_fields__
    return (
        dict(zip(names, found, strict=True))
        if isinstance(found, list) and len(found) == len(names)
        else {}
    )


def why_unreadable(id: bytes, fixed: bytes, live: bytes, queue: str) -> str | None:
    """None, or why no claim can be made of these two halves."""
    try:
        claim = first_claim(fixed, queue, 0)
        if live:
            later_claim(claim, live, None)
        return None if claim.id.encode() == id else unreadable("it names another job")
    except BAD as error:
        return unreadable(str(error))


def as_timeline(raw: list[bytes]) -> list[TimelineEntry]:
    return told([_event(line) for line in raw])


def _event(raw: bytes) -> TimelineEntry:
    try:
        line = [_or_none(part) for part in _any(raw)]
    except BAD as error:
        return TimelineEntry(0, "unreadable", f"this line cannot be read: {error}")
    return read_event(dict(zip(TimelineEntry.__struct_fields__, line, strict=False)))


def as_repeat(row: list[bytes]) -> Repeat:
    key = row[0].decode("utf-8", "backslashreplace")
    try:
        state, cursor, revision, count, last, reason = _any(row[2])
    except BAD as error:
        return unreadable_repeat(key, str(error))
    found = {
        "key": key,
        "spec": row[1],
        "cursor": _or_none(cursor),
        "state": state,
        "reason": reason,
    }
    return read_repeat({**found, "revision": revision, "count": count, "last": _or_none(last)})


def _or_none(value: Any) -> Any:
    return None if value is False else value
