"""Wrong uses of a lab that would otherwise pass unnoticed: a forgotten `await`, a sync call in
async code."""

import asyncio
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from mita.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def is_async_code() -> bool:
    """Whether an event loop runs on this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def check_sync(called: str, instead: str) -> None:
    """Raise `UsageError` in async code, whose event loop the call would block."""
    if is_async_code():
        raise UsageError(f"{called} is for sync tests, and this is async code: {instead}")


def awaited(method: F) -> F:
    """Return an async method of a lab with two checks. Called where no event loop runs, it raises
    `UsageError`. Its object collects the coroutines in `_calls`, for `check_awaited`."""
    name = method.__name__

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_async_code():
            raise UsageError(
                f"{name}() must be awaited, and this is sync code: call {name}_sync(), or make the "
                "test async"
            )
        coro = method(self, *args, **kwargs)
        calls = self._calls
        calls[:] = [(coro, name), *(one for one in calls if _never_ran(one[0]))]
        return coro

    return cast(F, call)


def check_awaited(calls: list[tuple[Any, str]], error: BaseException | None = None) -> None:
    """Raise `UsageError` if one of these coroutines was never awaited, unless the test has failed
    with another `error`."""
    forgotten = [(coro, name) for coro, name in calls if _never_ran(coro)]
    calls.clear()
    for coro, _ in forgotten:
        coro.close()
    if forgotten and error is None:
        name = forgotten[-1][1]
        raise UsageError(f"{name}() was called without await, so it did nothing: await it.{name}()")


def _never_ran(coro: Any) -> bool:
    return inspect.getcoroutinestate(coro) == inspect.CORO_CREATED
