"""Between the model and the values in Redis.

`scripting/record_layout.py` describes the bytes of a job record. The functions that run for every
job are generated from it (`scripting/record_code.py`)."""

from collections.abc import Sequence
from typing import Any

import msgspec

from mita.model.gate import StoredLimit
from mita.model.job import DEFAULT_PRIORITY, NORMAL_WEIGHT_THOUSANDTHS, Job, NewJob, State
from mita.model.outcome import TimelineEntry, TimelineKind, Verdict
from mita.model.repeat import Repeat
from mita.model.time import NOW, When
from mita.rules.durable import signal_name
from mita.rules.readable import (
    BAD,
    read_event,
    read_job,
    read_repeat,
    salvaged,
    unreadable,
    unreadable_repeat,
)
from mita.rules.timeline import for_people

from .scripting.record_code import (
    bulk_packer,
    first_claim_maker,
    later_claim_maker,
    packer,
    plain_packer,
)
from .scripting.record_layout import (
    CLIENT_FIELDS,
    HANDLE_FLAGS,
    HEAD_FIELDS,
    HIGHEST_IN_ONE_BYTE,
    INT8,
    LIVE_FIELDS,
    LOWEST_IN_ONE_BYTE,
    OLDEST_CLIENT_FIELDS,
    OLDEST_LIVE_FIELDS,
    PLAIN_FLAG,
    PRIORITY_IN_RECORD,
    client_defaults,
    fixed_type,
    live_defaults,
)

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode
_decode_limit = msgspec.msgpack.Decoder(StoredLimit).decode
_FIXED_TYPE = fixed_type()
_CLIENT_DEFAULTS = client_defaults()
_LIVE_DEFAULTS = list(live_defaults().values())
_HEAD = len(HEAD_FIELDS)


def is_plain(job: NewJob) -> bool:
    """Whether a job is due now and has the default priority, no key, no group and no weight. Most
    jobs are plain."""
    return (
        job.when is NOW
        and job.priority == DEFAULT_PRIORITY
        and job.resource is None
        and job.unique is None
        and job.fair is None
        and not job.gates
        and job.weight == NORMAL_WEIGHT_THOUSANDTHS
    )


def are_plain(jobs: Sequence[NewJob]) -> bool:
    """Whether all of these jobs are plain. This runs for every job of a bulk enqueue, so nothing is
    called for each."""
    each = [
        job.when is NOW
        and job.priority == DEFAULT_PRIORITY
        and job.resource is None
        and job.unique is None
        and job.fair is None
        and not job.gates
        and job.weight == NORMAL_WEIGHT_THOUSANDTHS
        for job in jobs
    ]
    return all(each)


def job_kind(job: NewJob, queue: int) -> bytes:
    """What the script must know to insert a job into the queue of this number; empty for a plain
    job of the first queue (`lua/include/insert_jobs.lua`)."""
    is_fair, when = bool(job.fair), job.when
    is_weighted = is_fair and job.weight != NORMAL_WEIGHT_THOUSANDTHS
    has = job.resource is not None, job.unique is not None, bool(job.gates), is_fair, is_weighted
    flag = HANDLE_FLAGS[has]
    if flag == PLAIN_FLAG and when is NOW and job.priority == DEFAULT_PRIORITY and queue == 1:
        return b""
    kind = (queue, job.priority, when.wait, when.at, flag, job.unique)
    throttle = debounce = None
    if job.unique is not None:  # without a key there is nothing to keep, and no job to meet
        throttle, debounce = job.throttle or None, job.debounce or None
    if not job.fair and throttle is None and debounce is None:
        return _pack(kind)
    return _pack((*kind, throttle, debounce, job.debounce_max, job.fair or None))


def pack_verdict(verdict: Verdict) -> bytes:
    """A verdict without its result, as `lua/include/settle.lua` reads it."""
    when, hold = verdict.when, verdict.hold
    return _pack(
        (
            verdict.state,
            None if when is None else when.wait,
            None if when is None else when.at,
            verdict.counts,
            verdict.error,
            verdict.keep,
            None if hold is None else hold.wait,
            None if hold is None else hold.at,
            verdict.stranded,
            verdict.event,
            verdict.note,
            verdict.failure,
            verdict.worker,
            verdict.unstarted,
            None if verdict.waits is None else signal_name(verdict.waits),
            verdict.told,
            verdict.group,
        )
    )


def pack_back(verdict: Verdict, priority: int) -> bytes:
    """What the verdicts of a group of jobs that go back to the queue share, and the priority that
    the jobs had when they were enqueued, as `lua/include/settle_back.lua` reads it."""
    is_at = verdict.when is not None and verdict.when.at is not None
    has_error = verdict.error is not None
    return _pack((verdict.counts, verdict.stranded, verdict.event, is_at, has_error, priority))


def when_args(when: When) -> tuple[int, int | str]:
    """A delay and a point in time ('' for none) as arguments of a script."""
    return when.wait, "" if when.at is None else when.at


def _with_priority_marked(raw: bytes) -> bytes:
    """A fixed part that MessagePack can read. It reads a single byte as a number from -32 to 127
    only; before a lower priority it needs a byte that says that a number follows."""
    if HIGHEST_IN_ONE_BYTE < raw[PRIORITY_IN_RECORD] < LOWEST_IN_ONE_BYTE:
        at = PRIORITY_IN_RECORD.start
        return raw[:at] + INT8 + raw[at:]
    return raw


def _fixed_values(raw: bytes) -> list[Any] | None:
    """The values of a fixed part of any version, unchecked: those of the head, then a list of the
    client's. None if it is no such list."""
    found = _unpack(_with_priority_marked(raw))
    if not isinstance(found, list):
        return None
    if len(found) == _HEAD + OLDEST_CLIENT_FIELDS:  # version 0.1 had no list in the list
        found = [*found[:_HEAD], found[_HEAD:]]
    if len(found) != _HEAD + 1 or not isinstance(found[_HEAD], list):
        return None
    client = found[_HEAD][: len(CLIENT_FIELDS)]
    if len(client) < OLDEST_CLIENT_FIELDS:
        return None
    return [*found[:_HEAD], client + _CLIENT_DEFAULTS[len(client) :]]


def _decode_other_version(raw: bytes) -> Any:
    """The values of a fixed part that an older or a newer version wrote, checked."""
    return msgspec.convert(_fixed_values(raw), _FIXED_TYPE)


def _live_values(raw: bytes) -> list[Any] | None:
    """The values of a live part of any version, unchecked. None if it is no such list."""
    found = _unpack(raw)
    if not isinstance(found, list) or len(found) < OLDEST_LIVE_FIELDS:
        return None
    values = found[: len(LIVE_FIELDS)]
    return values + _LIVE_DEFAULTS[len(values) :]


pack_new_job = packer()
pack_plain_job = plain_packer()
pack_plain_jobs = bulk_packer()
first_claim = first_claim_maker(_decode_other_version)
later_claim = later_claim_maker()


def as_job(row: list[Any], queue: str, id: str) -> Job:
    """The job of a row of `lua/find.lua`. One that cannot be read is returned as a failed job with
    the fields that can be read."""
    fixed, live = _fixed_dict(row[0]), {} if row[1] is None else _live_dict(row[1])
    if not fixed or (row[1] is not None and not live):
        return salvaged({"id": id, "queue": queue, **fixed}, "half of its record cannot be read")
    touched = {name: value for name, value in live.items() if value is not False}
    found = {**fixed, **touched, "id": id, "queue": queue, "result": row[3], "progress": row[4]}
    found["state"] = touched.get("state", State.QUEUED.value)
    if found["state"] == State.BLOCKED:  # before 0.2 a job could only wait at its resource key
        found.setdefault("blocked_at", found.get("resource"))
    found["error"] = None if row[2] is None else row[2].decode("utf-8", "surrogateescape")
    if row[5] is not None:
        found["lease_until"] = int(float(row[5]))
    else:
        found["lease_until"] = 0 if found["state"] == State.RUNNING else None
    return read_job(found)


def _fixed_dict(raw: bytes) -> dict[str, Any]:
    """The fields of a fixed part, unchecked; empty if it cannot be read."""
    try:
        values = _fixed_values(raw)
    except BAD:
        return {}
    if values is None:
        return {}
    return dict(zip((*HEAD_FIELDS, *CLIENT_FIELDS), [*values[:_HEAD], *values[_HEAD]], strict=True))


def _live_dict(raw: bytes) -> dict[str, Any]:
    """The fields of a live part, unchecked; empty if it cannot be read."""
    try:
        values = _live_values(raw)
    except BAD:
        return {}
    return {} if values is None else dict(zip(LIVE_FIELDS, values, strict=True))


def why_unreadable(id: bytes, fixed: bytes, live: bytes, queue: str) -> str | None:
    """Why no claim can be made of these two parts; None if it can."""
    try:
        claim = first_claim(fixed, queue, 0)
        if live:
            later_claim(claim, live, None)
        return None if claim.id.encode() == id else unreadable("it names another job")
    except BAD as error:
        return unreadable(str(error))


def as_timeline(raw: list[bytes]) -> list[TimelineEntry]:
    """The lines of a timeline, as people read it."""
    return for_people([_timeline_entry(line) for line in raw])


def _timeline_entry(raw: bytes) -> TimelineEntry:
    try:
        line = [_or_none(part) for part in _unpack(raw)]
    except BAD as error:
        return TimelineEntry(0, TimelineKind.UNREADABLE, f"this line cannot be read: {error}")
    return read_event(dict(zip(TimelineEntry.__struct_fields__, line, strict=False)))


def as_repeat(row: list[bytes]) -> Repeat:
    """The repeat of a row: its key, its spec, and what changes. One that cannot be read is returned
    as a parked repeat."""
    key = row[0].decode("utf-8", "backslashreplace")
    try:
        state, cursor, revision, count, last, reason, *newer = _unpack(row[2])
    except BAD as error:
        return unreadable_repeat(key, str(error))
    found = {"key": key, "spec": row[1], "cursor": _or_none(cursor), "state": state}
    found |= {"reason": reason, "revision": revision, "count": count, "last": _or_none(last)}
    # an older version wrote neither of these
    found |= dict(zip(("failures", "pause_reason"), newer, strict=False))
    return read_repeat(found)


def as_limit(packed: bytes | None) -> StoredLimit | None:
    """A limit that an operator has set. One that cannot be read is not in force, so it is None."""
    try:
        return None if packed is None else _decode_limit(packed)
    except BAD:
        return None


def _or_none(value: Any) -> Any:
    return None if value is False else value
