"""The `_sync` methods: each async method of a public class again, for code that is not async, made
by one function.

    async def pause(self, *queues: str) -> None: ...

    pause_sync = sync_twin(pause)

The twin has the same parameters, types and docstring, so that the two cannot drift apart.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class RunSync(Protocol):
    """Runs a coroutine to its end, from code that is not async, and returns its value."""

    def __call__(self, coro: Coroutine[Any, Any, T], /) -> T: ...


def sync_twin(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[S, P], R]:
    """Return a method with the same parameters that waits for the coroutine. It runs it with the
    object's `_run_sync(coroutine)`."""
    name = method.__name__

    @wraps(method)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        found = getattr(self, name)
        begin = getattr(found, "__wrapped__", None)  # without the check of `tasks.awaited`
        coro = found(*args, **kwargs) if begin is None else begin(self, *args, **kwargs)
        value: R = self._run_sync(coro)
        return value

    call.__name__ = f"{name}_sync"
    call.__qualname__ = f"{method.__qualname__}_sync"
    call.__doc__ = f"`{name}`, from code that is not async. {method.__doc__ or ''}".strip()
    return cast(Callable[Concatenate[S, P], R], call)
