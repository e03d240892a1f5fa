"""From a call to the job that is enqueued."""

from typing import Any

from mita.errors import UsageError
from mita.model.job import NewJob
from mita.model.time import When
from mita.rules.labels import with_tags

from .handle import Call
from .limits import CallLimits


def job_of_call(id: str, call: Call[Any], headers: bytes) -> NewJob:
    """The job of any call, with this id or the one that the caller chose. Raises `UsageError` for a
    call that belongs to a flow."""
    refuse_pending(call)
    options, limits, filled = call.options, call.options.limits, call.limits or CallLimits()
    tags = filled.tags
    return NewJob(
        id=filled.id or id,
        task=call.task,
        queue=options.queue,
        payload=call.payload,
        options=with_tags(options.packed, tags) if tags else options.packed,
        headers=headers,
        priority=options.priority,
        when=When(limits.debounce) if limits.debounce else options.when,
        unique=call.unique,
        unique_for=options.unique_for,
        resource=call.resource,
        limit=options.limit,
        when_busy=options.when_busy,
        gates=filled.gates,
        fair=filled.fair,
        weight=limits.weight,
        throttle=limits.throttle,
        debounce=limits.debounce,
        debounce_max=limits.debounce_max,
        tags=tags,
        fresh=filled.id is None,
    )


def refuse_id(call: Call[Any], what: str) -> None:
    """Raise `UsageError` for a call with an id of its own. `what` gets its id elsewhere."""
    if call.limits is not None and call.limits.id is not None:
        raise UsageError(
            f"task {call.task!r}, id={call.limits.id!r}: {what}. Leave id= out, or keep the id in "
            "tags=[…] or metadata={…}"
        )


def refuse_pending(call: Call[Any]) -> None:
    """Raise `UsageError` for a call that belongs to a flow."""
    if call.pending is not None:
        raise UsageError(
            f"task {call.task!r}: an argument is the result of a step, which is known only in its "
            "flow: pass the call to flow.add(…)"
        )
