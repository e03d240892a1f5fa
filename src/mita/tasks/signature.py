"""The parameters of a function, and whether the first one is the job itself."""

import inspect
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from mita.errors import UsageError

from .annotations import resolve
from .depends import is_job
from .injection import Injection, read_injection
from .job import Job

_NOT_STORED: dict[Any, str] = {
    Parameter.VAR_POSITIONAL: "*{}: a job's arguments have names; take one list instead",
    Parameter.VAR_KEYWORD: "**{}: a job's arguments are known beforehand; take one dict instead",
}


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether calling this returns a coroutine."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
        getattr(fn, "__call__", None)  # noqa: B004
    )


def read(task: str, fn: Callable[..., Any]) -> tuple[Signature, bool, Injection | None]:
    """Return the signature that callers see, whether the function takes the job before it, and what
    the worker fills in."""
    check_kind(task, fn)
    whole = inspect.signature(fn)
    parameters = list(whole.parameters.values())
    wants_job = bool(parameters) and _asks_for_job(fn, parameters[0])
    job_class = _job_class(fn, parameters[0]) if wants_job else None
    injection, rest = read_injection(task, fn, whole, job_class)
    for parameter in rest:
        _check_parameter(task, fn, parameter)
    return whole.replace(parameters=rest), wants_job, injection


def check_kind(task: str, fn: Callable[..., Any]) -> None:
    """Raise `UsageError` for a parameter that cannot be stored by name, for example `*args`."""
    if not callable(fn) or inspect.isclass(fn):
        raise UsageError(
            f"task {task!r}: {fn!r} is not a function; a task is a function, sync or async"
        )
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise UsageError(
            f"task {task!r} is a generator: a task runs once and returns; use `return` instead "
            "of `yield`"
        )


def _check_parameter(task: str, fn: Callable[..., Any], parameter: Parameter) -> None:
    if refusal := _NOT_STORED.get(parameter.kind):
        raise UsageError(f"task {task!r} takes {refusal.format(parameter.name)}")
    if parameter.name in ("self", "cls"):
        raise UsageError(
            f"task {task!r} takes {parameter.name!r}: a task is a plain function, not a method"
        )
    if parameter.annotation is not Parameter.empty and is_job(fn, parameter.annotation):
        raise UsageError(
            f"task {task!r}: parameter {parameter.name!r} asks for the Job, which must be the "
            "first parameter"
        )


def _asks_for_job(fn: Callable[..., Any], first: Parameter) -> bool:
    if first.kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        return False
    return (
        first.name == "job" if first.annotation is Parameter.empty else is_job(fn, first.annotation)
    )


def _job_class(fn: Callable[..., Any], first: Parameter) -> type[Job]:
    """The class of job that the function takes: `Job`, or one derived from it."""
    found = first.annotation
    if isinstance(found, str):
        try:
            found = resolve(fn, found)
        except (NameError, AttributeError, TypeError, SyntaxError):
            return Job
    return found if isinstance(found, type) and issubclass(found, Job) else Job
