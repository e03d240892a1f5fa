"""Calls that users hand over: checked, and as templates for repeats."""

from collections.abc import Iterable, Mapping
from typing import Any

from mita.errors import UsageError
from mita.model.outcome import SignalJob
from mita.model.pattern import JobTemplate
from mita.model.time import NOW
from mita.rules.flow import ADDED, CHILD, SUCCEEDED
from mita.rules.flow_retries import LOST, RETRIED
from mita.rules.labels import with_tags
from mita.rules.names import check_key
from mita.tasks import Call
from mita.tasks.annotations import STORABLE
from mita.tasks.calls import check_call
from mita.tasks.limits import CallLimits
from mita.tasks.new_job import refuse_id, refuse_pending
from mita.tasks.stored import UNSTORABLE, encode

# The fields of a template that come from the options of the call.
_OPTION_FIELDS = tuple(
    name
    for name in JobTemplate.__struct_fields__
    if name
    not in ("task", "payload", "options", "unique", "resource", "gates", "fair", "weight", "tags")
)

# so begin the names of signals that jobs of flows give each other
OWN_SIGNALS = (CHILD, ADDED, SUCCEEDED, RETRIED, LOST)


def template(call: Call[Any]) -> JobTemplate:
    """Return what a repeat stores of the job that it makes. Raises `UsageError` for a call that has
    a time of its own."""
    refuse_pending(call)
    refuse_id(call, "a repeat gives each of its jobs an id")
    if call.options.when is not NOW:
        raise UsageError(
            "a repeat decides when its jobs run: leave out .at(…) and .after(…), or give "
            "start_after="
        )
    limits = call.options.limits
    for name in ("debounce", "throttle"):
        if getattr(limits, name):
            raise UsageError(
                f"{name} is about enqueues that come too often: a repeat decides when its jobs "
                "run, so leave it out"
            )
    filled = call.limits or CallLimits()
    options = {name: getattr(call.options, name) for name in _OPTION_FIELDS}
    return JobTemplate(
        task=call.task,
        payload=call.payload,
        options=with_tags(call.options.packed, filled.tags) if filled.tags else call.options.packed,
        unique=call.unique,
        resource=call.resource,
        gates=filled.gates,
        fair=filled.fair,
        weight=limits.weight,
        tags=filled.tags,
        **options,
    )


def check_calls(calls: Iterable[Call[Any]], tasks: Mapping[str, object]) -> list[Call[Any]]:
    """Return the calls as a list. Raises `UsageError` if one of them is no call of these tasks, or
    belongs to a flow."""
    listed = list(calls)
    for call in listed:
        check_call(call, tasks)
        if call.pending is not None:
            refuse_pending(call)
    return listed


def signal_job(name: str, value: object) -> SignalJob:
    """Return the change that signals a job. Raises `UsageError` for a value that cannot be
    stored."""
    if check_key("signal", name).startswith(OWN_SIGNALS):
        *some, last = map(repr, OWN_SIGNALS)
        raise UsageError(
            f"signal {name!r}: names that begin with {', '.join(some)} or {last} are Mita's own, "
            "for child jobs and flows"
        )
    try:
        return SignalJob(name, encode(value))
    except UNSTORABLE as error:
        raise UsageError(
            f"signal {name!r}: a value of type {type(value).__qualname__} cannot be stored "
            f"({error}); values are {STORABLE}"
        ) from error


def unknown_job(id: str) -> UsageError:
    """The error for a job that the store does not have."""
    return UsageError(
        f"no job {id!r} is in the store: it never was, or it ended and was deleted (see keep=)"
    )
