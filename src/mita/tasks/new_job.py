"""From a call to the job that is enqueued."""

from typing import Any

from mita.errors import UsageError
from mita.model.job import NewJob
from mita.model.time import When

from .handle import Call
from .limits import CallLimits


def job_of_call(id: str, call: Call[Any], headers: bytes) -> NewJob:
    """The job of any call. Raises `UsageError` for a call that belongs to a flow."""
    refuse_pending(call)
    options, limits, filled = call.options, call.options.limits, call.limits or CallLimits()
    return NewJob(
        id=id,
        task=call.task,
        queue=options.queue,
        payload=call.payload,
        options=options.packed,
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
        fresh=True,
    )


def refuse_pending(call: Call[Any]) -> None:
    """Raise `UsageError` for a call that belongs to a flow."""
    if call.pending is not None:
        raise UsageError(
            f"task {call.task!r}: an argument is the result of a step, which is known only in its "
            "flow: pass the call to flow.add(…)"
        )
