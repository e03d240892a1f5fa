"""`@app.task`: from a function to a task."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar, Unpack, overload

from mita.errors import UsageError

from .choices import TaskChoices
from .job import Job
from .registry import Registry
from .signals import Reschedule
from .task import CallableTask

J = TypeVar("J", bound=Job)
P = ParamSpec("P")
R = TypeVar("R")

Async: TypeAlias = Coroutine[Any, Any, R]


class Declare:
    """A decorator, and a function that returns decorators: `@app.task`, or
    `@app.task(queue="mail")`.

    If the first parameter of the function is a `Job`, callers do not pass it. Nor do they pass what
    `Depends` fills in. A returned `Reschedule` is not a result."""

    def __init__(self, registry: Registry, choices: Mapping[str, Any]) -> None:
        self._registry = registry
        self._choices = choices

    @overload
    def __call__(
        self, fn: Callable[Concatenate[J, P], Async[R | Reschedule]], /
    ) -> CallableTask[P, R, Concatenate[J, P], Async[R]]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[J, P], Awaitable[R | Reschedule]], /
    ) -> CallableTask[P, R, Concatenate[J, P], Awaitable[R]]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[J, P], R | Reschedule], /
    ) -> CallableTask[P, R, Concatenate[J, P], R]: ...
    @overload
    def __call__(
        self, fn: Callable[P, Async[R | Reschedule]], /
    ) -> CallableTask[P, R, P, Async[R]]: ...
    @overload
    def __call__(
        self, fn: Callable[P, Awaitable[R | Reschedule]], /
    ) -> CallableTask[P, R, P, Awaitable[R]]: ...
    @overload
    def __call__(self, fn: Callable[P, R | Reschedule], /) -> CallableTask[P, R, P, R]: ...
    @overload
    def __call__(self, **choices: Unpack[TaskChoices]) -> "Declare": ...
    def __call__(self, *fn: Callable[..., Any], **choices: Any) -> Any:
        together = {**self._choices, **choices}
        if not fn:
            return Declare(self._registry, together)
        if len(fn) > 1 or not callable(fn[0]):
            raise UsageError(
                f"@app.task{fn!r}: options are given by name, for example @app.task(name='mail', "
                "queue='out')"
            )
        return self._registry.add(fn[0], together)
