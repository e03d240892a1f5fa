"""From calls to jobs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mita.errors import UsageError
from mita.model.job import NewJob
from mita.model.pattern import JobTemplate
from mita.model.time import NOW
from mita.ports.ids import new_ids
from mita.rules.claim_size import MOST
from mita.tasks import Call

ENQUEUE_BYTES = 16_000_000  # of arguments in one call to a store
UNCHECKED_JOBS = 50


def new_jobs(calls: Sequence[Call[Any]], headers: bytes = b"") -> list[NewJob]:
    """Each with a fresh id. This is where a job gets its shape; 60,000 of them a second pass
    here."""
    return [
        NewJob(
            id=id,
            task=call.task,
            queue=(options := call.options).queue,
            payload=call.payload,
            options=options.packed,
            headers=headers,
            priority=options.priority,
            when=options.when,
            unique=call.unique,
            unique_for=options.unique_for,
            resource=call.resource,
            limit=options.limit,
            when_busy=options.when_busy,
            fresh=True,
        )
        for id, call in zip(new_ids(len(calls)), calls, strict=True)
    ]


def fit_together(calls: Sequence[Call[Any]]) -> bool:
    """Whether a store takes them in one call. A few are not looked at: arguments have a limit of
    their own."""
    return len(calls) <= UNCHECKED_JOBS or (
        len(calls) <= MOST and sum([len(call.payload) for call in calls]) <= ENQUEUE_BYTES
    )


def in_parts(calls: Sequence[Call[Any]], headers: bytes = b"") -> Iterator[list[NewJob]]:
    """As many at a time as a store takes in one call; each part is made when it is asked for."""
    start = 0
    while start < len(calls):
        end, size = start, 0
        while (
            end < len(calls)
            and end - start < MOST
            and (end == start or size + len(calls[end].payload) <= ENQUEUE_BYTES)
        ):
            size += len(calls[end].payload)
            end += 1
        yield new_jobs(calls[start:end], headers)
        start = end


def template(call: Call[Any]) -> JobTemplate:
    """The job that a repeat makes again and again."""
    if call.options.when is not NOW:
        raise UsageError(
            "a repeat decides when its jobs run: leave out .at(…) and .after(…), or give "
            "start_after="
        )
    return JobTemplate(
        task=call.task,
        queue=call.options.queue,
        payload=call.payload,
        options=call.options.packed,
        priority=call.options.priority,
        unique=call.unique,
        unique_for=call.options.unique_for,
        resource=call.resource,
        limit=call.options.limit,
        when_busy=call.options.when_busy,
    )


def check_calls(calls: Iterable[Call[Any]], tasks: Mapping[str, object]) -> list[Call[Any]]:
    """All of them, before the first is stored."""
    listed = list(calls)
    for call in listed:
        check_call(call, tasks)
    return listed


def check_call(call: Call[Any], tasks: Mapping[str, object]) -> None:
    if not isinstance(call, Call):
        raise UsageError(f"{call!r} is not a call: make one with task.call(…), and do not await it")
    if call.task not in tasks:
        raise UsageError(unknown_task(call.task, tasks))


def unknown_task(name: str, tasks: Mapping[str, object]) -> str:
    known = ", ".join(sorted(tasks)) or "none yet"
    return (
        f"no task {name!r} is registered with this app: declare it with @app.task, or import "
        f"its module (known: {known})"
    )


def unknown_job(id: str) -> UsageError:
    return UsageError(
        f"no job {id!r} is in the store: it never was, or it ended and was forgotten (see keep=)"
    )
