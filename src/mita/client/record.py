"""From a job as it is stored to a record for people."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mita.errors import StoreError
from mita.model.job import Job, State
from mita.model.outcome import TimelineEntry, TimelineKind
from mita.model.record import WITHHELD, Failure, JobRecord, ProgressReport, TimelineLine
from mita.model.time import Moment
from mita.rules.display import as_datetime, shown
from mita.rules.failures import type_of
from mita.rules.gates import keys_of
from mita.rules.judge import first_line, was_not_started
from mita.rules.labels import read_metadata
from mita.rules.options import options_of
from mita.rules.sealed import is_sealed, shown_text, why_closed
from mita.rules.states import TERMINAL
from mita.tasks import Task
from mita.tasks.placeholders import plain_arguments
from mita.tasks.stored import plain

# what a line says that stores keep without a note
_NOTES = {TimelineKind.DEBOUNCED.value: "a newer enqueue moved it and replaced its arguments"}
_checkpoint = msgspec.msgpack.Decoder(ProgressReport).decode


def job_record(
    job: Job, events: Sequence[TimelineEntry], now: Moment, tasks: Mapping[str, Task[Any, Any]]
) -> JobRecord:
    """Make the record of a job. `now` is the store's time."""
    secret = secret_of(job, tasks)
    options = options_of(job.options)
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
        error=None if job.error is None else shown_text(job.error),
        group=job.group,
        result=None if secret else _shown_result(job, tasks),
        resource=job.resource,
        unique=job.unique,
        repeat=job.repeat,
        fire_time=_datetime(job.fire_time),
        keys=keys_of(job.resource, job.gates),
        blocked_at=job.blocked_at,
        fair=job.fair,
        worker=job.worker,
        started=_datetime(_started(job, events)),
        finished=_datetime(job.finished),
        asked=job.asked,
        progress=_progress(job, secret),
        arguments=_shown_arguments(job, secret),
        secret=bool(secret),
        encrypted=why_closed(job.payload) if is_sealed(job.payload) else "",
        timeout=options.timeout,
        expires=options.expires,
        deadline=options.deadline,
        max_reschedules=options.max_reschedules,
        tags=options.tags,
        metadata=read_metadata(options.metadata),
        timeline=_timeline(job, events),
        failures=tuple(_failure(event) for event in events if event.error),
    )


def secret_of(job: Job, tasks: Mapping[str, Task[Any, Any]]) -> bool | tuple[str, ...]:
    """What is secret about a job: as it was declared when the job was enqueued, or as its task
    declares it today."""
    task = tasks.get(job.task)
    return options_of(job.options).secret or (task is not None and task.secret)


def _shown_arguments(job: Job, secret: bool | tuple[str, ...]) -> dict[str, Any] | None:
    if secret is True:
        return None
    values = _read(plain_arguments, job.payload)
    if not isinstance(values, dict):
        return None
    return {
        name: WITHHELD if secret and name in secret else value for name, value in values.items()
    }


def _progress(job: Job, secret: bool | tuple[str, ...]) -> ProgressReport | None:
    """The progress without its message, if the task is secret: the message may contain secret
    values."""
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
    """Return the result, by the return annotation of the task; as plain values if the task is not
    known here."""
    if job.result is None:
        return None
    if is_sealed(job.result):
        why = why_closed(job.result)
        raise StoreError(f"the result of job {job.id} cannot be read: {why}")
    task = tasks.get(job.task)
    return _read(plain, job.result) if task is None else task.arguments.unpack_result(job.result)


def _timeline(job: Job, events: Sequence[TimelineEntry]) -> tuple[TimelineLine, ...]:
    """Make the whole timeline: the store keeps only what is out of the ordinary, the rest follows
    from the job's fields."""
    lines = [TimelineEntry(job.created, "created"), *events]
    started = _started(job, events)
    if started is not None:
        lines.insert(
            _place_of_start(job, started, lines),
            TimelineEntry(started, "started", "", job.worker),
        )
    if job.state in TERMINAL and job.finished is not None:
        has_end = any(event.kind == job.state and event.at >= job.finished for event in events)
        lines += [] if has_end else [TimelineEntry(job.finished, job.state.value, "", job.worker)]
    return tuple(
        TimelineLine(
            as_datetime(event.at),
            event.kind,
            event.note or _NOTES.get(event.kind, ""),
            event.worker,
        )
        for event in lines
    )


def _started(job: Job, events: Sequence[TimelineEntry]) -> Moment | None:
    """When the last run started. A job that expired, or whose deadline was over, has a claim, but
    its handler did not start."""
    expired = job.state is State.CANCELLED and events and events[-1].kind == TimelineKind.EXPIRED
    too_late = job.state is State.FAILED and was_not_started(job.error)
    return None if expired or too_late else job.started


def _failure(event: TimelineEntry) -> Failure:
    kind, first = type_of(event.error), first_line(event.error)
    return Failure(
        type=kind,
        message=first.removeprefix(kind).removeprefix(":").strip(),
        text=shown_text(event.error),
        kind=event.kind,
        ended=as_datetime(event.at),
        started=None if was_not_started(event.error) else _datetime(event.started),
        worker=event.worker,
    )


def _place_of_start(job: Job, started: Moment, lines: list[TimelineEntry]) -> int:
    """The position of the start: after everything until then, but before the line of how this run
    ended."""
    index = sum(line.at <= started for line in lines)
    ended = job.state not in (State.RUNNING, State.SUCCEEDED)
    return index - 1 if ended and index == len(lines) > 1 and lines[-1].at == started else index


def _read(decode: Callable[[bytes], Any], packed: bytes | None) -> Any:
    """Return None for a value that cannot be read: one bad job must not make a page fail."""
    if not packed:
        return None
    try:
        return decode(packed)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _datetime(moment: Moment | None) -> Any:
    return None if moment is None else as_datetime(moment)
