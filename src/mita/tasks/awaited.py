"""Methods of a job that make no sense without `await`."""

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from mita.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def only_awaited(method: F) -> F:
    """Return an async method with a check: it raises `UsageError` where no event loop runs, which
    is so in a sync handler. There its coroutine would never be awaited, and the handler would take
    the coroutine for the value."""
    name = method.__name__

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise UsageError(
                f"job.{name}(…) must be awaited, and this handler is no async function: use "
                f"job.{name}_sync(…), or make the handler async"
            ) from None
        return method(*args, **kwargs)

    return cast(F, call)
