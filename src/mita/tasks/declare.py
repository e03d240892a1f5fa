"""`@app.task`: from a function to a task."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar, Unpack, overload

from mita.errors import UsageError
from mita.rules.names import check_name

from .arguments import PAYLOAD_BYTES, Arguments
from .handle import Sender
from .job import Job
from .options import Options, TaskChoices, choose
from .origin import Origin
from .signals import Reschedule
from .signature import check_kind, is_async
from .task import CallableTask, Executor, Task

P = ParamSpec("P")
R = TypeVar("R")

Async: TypeAlias = Coroutine[Any, Any, R]


class Registry:
    """The tasks of one app, by name. Two functions never have one name. A module that is imported
    again, or a cell of a notebook, replaces its own tasks."""

    def __init__(
        self, sender: Sender, options: Options, payload_limit: int = PAYLOAD_BYTES
    ) -> None:
        self.tasks: dict[str, Task[Any, Any]] = {}
        self._origins: dict[str, tuple[Origin, Mapping[str, Any]]] = {}
        self._sender = sender
        self._options = options
        self._payload_limit = payload_limit

    def add(self, fn: Callable[..., Any], choices: Mapping[str, Any]) -> Task[Any, Any]:
        """Register a function and return its task. Raises `UsageError` if the name belongs to
        another function."""
        rest = dict(choices)
        name = _name(fn, rest.pop("name", None))
        final = _final(name, rest.pop("final", ()))
        executor = _executor(name, fn, rest.pop("executor", None))
        arguments = Arguments(name, fn)
        try:
            options = choose(self._options, rest, arguments.parameters, per_job=False)
        except UsageError as error:
            raise UsageError(f"task {name!r}: {error}") from None
        task: Task[Any, Any] = CallableTask(
            name,
            fn,
            options,
            self._sender,
            final=final,
            executor=executor,
            payload_limit=self._payload_limit,
            arguments=arguments,
        )
        origin = Origin.of(fn)
        self._check_free(name, origin, choices)
        self.tasks[name], self._origins[name] = task, (origin, choices)
        return task

    def _check_free(self, name: str, origin: Origin, choices: Mapping[str, Any]) -> None:
        if name not in self._origins:
            return
        earlier, chosen = self._origins[name]
        same = earlier.same_as(origin)
        if earlier.reloaded_as(origin) or (same and chosen == choices):
            return
        other = str(origin)
        if other == str(earlier):
            other = (
                "the same function with other options"
                if same
                else "the one with other values around it"
            )
        raise UsageError(
            f"task name {name!r} is taken by {earlier}: give {other} another name, "
            "@app.task(name='…')"
        )


class Declare:
    """A decorator, and a function that returns decorators: `@app.task`, or
    `@app.task(queue="mail")`.

    If the first parameter of the function is a `Job`, callers do not pass it. A returned
    `Reschedule` is not a result."""

    def __init__(self, registry: Registry, choices: Mapping[str, Any]) -> None:
        self._registry = registry
        self._choices = choices

    @overload
    def __call__(
        self, fn: Callable[Concatenate[Job, P], Async[R | Reschedule]], /
    ) -> CallableTask[P, R, Concatenate[Job, P], Async[R]]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Job, P], Awaitable[R | Reschedule]], /
    ) -> CallableTask[P, R, Concatenate[Job, P], Awaitable[R]]: ...
    @overload
    def __call__(
        self, fn: Callable[Concatenate[Job, P], R | Reschedule], /
    ) -> CallableTask[P, R, Concatenate[Job, P], R]: ...
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


def _name(fn: Callable[..., Any], chosen: str | None) -> str:
    name = chosen if chosen is not None else getattr(fn, "__name__", None)
    if name is None:
        raise UsageError(f"{fn!r} has no name of its own: give it one, @app.task(name='…')")
    check_kind(name, fn)
    if chosen is None and not name.isidentifier():
        raise UsageError(f"{name} is no name for a task: give it one, @app.task(name='…')")
    return check_name("task", name)


def _final(task: str, errors: Any) -> tuple[type[BaseException], ...]:
    listed = tuple(errors) if isinstance(errors, tuple | list | set | frozenset) else (errors,)
    for error in listed:
        if not (isinstance(error, type) and issubclass(error, BaseException)):
            raise UsageError(
                f"task {task!r}: final={error!r} is not a class of errors; list for example "
                "(ValueError,)"
            )
    return listed


def _executor(task: str, fn: Callable[..., Any], chosen: Any) -> Executor:
    if chosen is None:
        return "loop" if is_async(fn) else "thread"
    if chosen not in ("thread", "process"):
        raise UsageError(
            f"task {task!r}: executor={chosen!r}: use 'thread' (the default of a plain function) "
            "or 'process'"
        )
    if is_async(fn):
        raise UsageError(
            f"task {task!r} is async, so it runs on the worker's event loop: executor={chosen!r} "
            "is for plain functions; write `def` instead of `async def`, or leave executor out"
        )
    executor: Executor = chosen
    return executor
