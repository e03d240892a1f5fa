"""Calls that users hand over, checked."""

import inspect
from collections.abc import Mapping
from typing import Any

from mita.errors import UsageError

from .handle import Call


def check_call(call: Call[Any], tasks: Mapping[str, object]) -> None:
    """Raise `UsageError` if this is no call of one of these tasks."""
    if not isinstance(call, Call):
        raise not_a_call(call)
    if call.task not in tasks:
        raise UsageError(unknown_task(call.task, tasks))


def not_a_call(given: object) -> UsageError:
    """The error for what is given in place of a call. A coroutine is closed: no code awaits it."""
    if inspect.iscoroutine(given):
        given.close()
    return UsageError(f"{given!r} is not a call: make one with task.call(…), and do not await it")


def unknown_task(name: str, tasks: Mapping[str, object]) -> str:
    """The text of the error for a task that is not registered."""
    known = ", ".join(sorted(tasks)) or "none yet"
    return (
        f"no task {name!r} is registered with this app: declare it with @app.task, or import "
        f"its module (known: {known})"
    )
