"""From a job as stored to a record as shown."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mita.errors import StoreError
from mita.model.job import Job, State
from mita.model.outcome import TimelineEntry
from mita.model.record import WITHHELD, Failure, JobRecord, ProgressReport, TimelineLine
from mita.model.time import Moment
from mita.rules.explain.reasons.words import as_datetime, shown
from mita.rules.failures import type_of
from mita.rules.judge import first_line
from mita.rules.options import options_of
from mita.rules.states import TERMINAL
from mita.tasks import Task
from mita.tasks.stored import plain

_checkpoint = msgspec.msgpack.Decoder(ProgressReport).decode


def job_record(
    job: Job, events: Sequence[TimelineEntry], now: Moment, tasks: Mapping[str, Task[Any, Any]]
) -> JobRecord:
    secret = secret_of(job, tasks)
    return JobRecord(
        id=job.id,
        task=job.task,
        queue=job.queue,
        state=shown(job, now),
        priority=job.priority,
        due=as_datetime(job.due),
        created=as_datetime(job.created),
        attempts=job.attempts,
        reschedules=job.reschedules,
        busy=job.busy,
        interruptions=job.interruptions,
        crashes=job.crashes,
        error=job.error,
        result=None if secret else _shown_result(job, tasks),
        resource=job.resource,
        unique=job.unique,
        repeat=job.repeat,
        fire_time=_datetime(job.fire_time),
        worker=job.worker,
        started=_datetime(job.started),
        finished=_datetime(job.finished),
        asked=job.asked,
        progress=_progress(job, secret),
        arguments=_shown_arguments(job, secret),
        secret=bool(secret),
        timeline=_timeline(job, events),
        failures=tuple(_failure(event) for event in events if event.error),
    )


def secret_of(job: Job, tasks: Mapping[str, Task[Any, Any]]) -> bool | tuple[str, ...]:
    """As it was marked when it was enqueued, or as its task is marked today."""
    task = tasks.get(job.task)
    return options_of(job.options).secret or (task is not None and task.secret)


def _shown_arguments(job: Job, secret: bool | tuple[str, ...]) -> dict[str, Any] | None:
    if secret is True:
        return None
    values = _read(plain, job.payload)
    if not isinstance(values, dict):
        return None
    return {
        name: WITHHELD if secret and name in secret else value for name, value in values.items()
    }


def _progress(job: Job, secret: bool | tuple[str, ...]) -> ProgressReport | None:
    """Its numbers are for everybody; its message may tell of what it works on."""
    found: ProgressReport | None = _read(_checkpoint, job.progress)
    return (
        found._replace(message=WITHHELD)
        if found is not None and found.message and secret
        else found
    )


def _shown_result(job: Job, tasks: Mapping[str, Task[Any, Any]]) -> Any:
    try:
        return result(job, tasks)
    except (msgspec.MsgspecError, StoreError):
        return None


def result(job: Job, tasks: Mapping[str, Task[Any, Any]]) -> Any:
    """As its task's return annotation says; as plain values when the task is not known here."""
    if job.result is None:
        return None
    task = tasks.get(job.task)
    return _read(plain, job.result) if task is None else task.arguments.unpack_result(job.result)


def _timeline(job: Job, events: Sequence[TimelineEntry]) -> tuple[TimelineLine, ...]:
    """The store keeps what went beyond the happy path; the happy path itself is in the job."""
    lines = [TimelineEntry(job.created, "created"), *events]
    if job.started is not None:
        lines.insert(
            _place_of_start(job, job.started, lines),
            TimelineEntry(job.started, "started", "", job.worker),
        )
    if job.state in TERMINAL and job.finished is not None:
        told = any(event.kind == job.state and event.at >= job.finished for event in events)
        lines += [] if told else [TimelineEntry(job.finished, job.state.value, "", job.worker)]
    return tuple(
        TimelineLine(as_datetime(event.at), event.kind, event.note, event.worker) for event in lines
    )


def _failure(event: TimelineEntry) -> Failure:
    kind, first = type_of(event.error), first_line(event.error)
    return Failure(
        type=kind,
        message=first.removeprefix(kind).removeprefix(":").strip(),
        text=event.error,
        kind=event.kind,
        ended=as_datetime(event.at),
        started=_datetime(event.started),
        worker=event.worker,
    )


def _place_of_start(job: Job, started: Moment, lines: list[TimelineEntry]) -> int:
    """Behind everything up to that moment, but before the line that tells how this very run
    ended."""
    place = sum(line.at <= started for line in lines)
    ended = job.state not in (State.RUNNING, State.SUCCEEDED)
    return place - 1 if ended and place == len(lines) > 1 and lines[-1].at == started else place


def _read(decode: Callable[[bytes], Any], packed: bytes | None) -> Any:
    """None for what cannot be read: a record is for looking, and must not fail because of one bad
    job."""
    if not packed:
        return None
    try:
        return decode(packed)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _datetime(moment: Moment | None) -> Any:
    return None if moment is None else as_datetime(moment)
