"""Between our nouns and what lies in Redis. `lua/include/record.lua` says how the two halves of a job are laid out."""

from typing import Any

import msgspec

from mita.model.job import DEFAULT_PRIORITY, Claim, Job, NewJob, State, WhenBusy
from mita.model.outcome import Event, Verdict
from mita.model.repeat import Repeat, RepeatState
from mita.model.time import NOW, Moment, When
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
    token: int = 0
    priority: Any = False
    due: Any = False
    attempts: int = 0
    reschedules: int = 0
    busy: int = 0
    interruptions: int = 0
    crashes: int = 0
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
_fixed = msgspec.msgpack.Decoder(Fixed).decode
_live = msgspec.msgpack.Decoder(Live).decode
_any = msgspec.msgpack.Decoder().decode
UNTOUCHED = Live()
AGE, ID = slice(0, 8), slice(9, None)  # of a handle


def packed(job: NewJob) -> bytes:
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
    return job.when is NOW and job.priority == DEFAULT_PRIORITY and job.resource is None and job.unique is None


def meta(job: NewJob, queue: int) -> bytes:
    """What the script must know to put the job in its place; nothing for a plain one of the first queue."""
    if queue == 1 and is_plain(job):
        return b""
    flag = (job.resource is not None) + 2 * (job.unique is not None)
    return _pack((queue, job.priority, job.when.wait, job.when.at, str(flag), job.unique))


def verdict(said: Verdict) -> bytes:
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


def moment(when: When) -> tuple[int, int | str]:
    """A wait and a moment, '' for none."""
    return when.wait, "" if when.at is None else when.at


def first_claim(raw: bytes, queue: str, at: Moment) -> Claim:
    """The claim of a job that was never touched; its token is the moment. By position, not by name: it runs for each job."""
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
    ) = _any(raw)
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


def as_job(row: list[Any], queue: str) -> Job:
    fixed, live = _fixed(row[0]), UNTOUCHED if row[1] is None else _live(row[1])
    return Job(
        id=fixed.handle[ID].decode(),
        task=fixed.task,
        queue=queue,
        state=State(live.state),
        priority=fixed.priority if live.priority is False else live.priority,
        due=fixed.due if live.due is False else live.due,
        created=fixed.created,
        payload=fixed.payload,
        options=fixed.options,
        headers=fixed.headers,
        attempts=live.attempts,
        reschedules=live.reschedules,
        busy=live.busy,
        interruptions=live.interruptions,
        crashes=live.crashes,
        error=None if row[2] is None else row[2].decode(),
        result=row[3],
        resource=fixed.resource,
        limit=fixed.limit,
        when_busy=WhenBusy(fixed.when_busy),
        unique=fixed.unique,
        unique_for=fixed.unique_for,
        repeat=fixed.repeat,
        fire_time=fixed.fire_time,
        progress=row[4],
        stranded=_or_none(live.stranded),
        token=live.token,
        worker=_or_none(live.worker),
        started=_or_none(live.started),
        lease_until=None if row[5] is None else int(row[5]),
        asked=_or_none(live.asked),
        finished=_or_none(live.finished),
        expires=_or_none(live.expires),
    )


def as_timeline(raw: list[bytes]) -> list[Event]:
    return told([_as_event(*_any(line)) for line in raw])


def _as_event(at: Moment, kind: str, text: str, worker: Any, error: str = "", started: Any = None) -> Event:
    """Only a line that tells of a failed run has an error and a start."""
    return Event(at, kind, text, _or_none(worker), error, _or_none(started))


def as_repeat(row: list[bytes]) -> Repeat:
    state, cursor, revision, count, last, reason = _any(row[2])
    return Repeat(
        key=row[0].decode(),
        spec=row[1],
        cursor=_or_none(cursor),
        state=RepeatState(state),
        reason=reason,
        revision=revision,
        count=count,
        last=_or_none(last),
    )


def _or_none(value: Any) -> Any:
    return None if value is False else value
