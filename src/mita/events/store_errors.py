"""Counting what a store could not do, by operation."""

from collections.abc import Callable
from functools import cache
from inspect import getmembers, iscoroutinefunction
from typing import Any

from mita.errors import StoreError
from mita.ports.store import Store

from .signals import Emit, StoreFailed

OPEN = "open"
OPERATIONS = sorted({name for name, _ in getmembers(Store, iscoroutinefunction)} - {OPEN, "close"})


def watched(store: Store, emit: Emit) -> Store:
    """The same store, which also tells of each operation that fails."""
    store.__class__ = _watched(type(store))
    store.__dict__["_tell_of_failure"] = emit
    return store


@cache
def _watched(kind: type[Store]) -> type[Store]:
    methods = {name: _telling(kind, name) for name in OPERATIONS}
    return type(
        kind.__name__, (kind,), {**methods, "__module__": kind.__module__, "__doc__": kind.__doc__}
    )


def _telling(kind: type[Store], name: str) -> Callable[..., Any]:
    async def call(self: Any, *args: Any, **named: Any) -> Any:
        try:
            return await getattr(kind, name)(self, *args, **named)
        except StoreError as error:
            # an operation may be made of others: the innermost one is counted
            if not hasattr(error, "operation"):
                error.operation = name  # type: ignore[attr-defined]
                self._tell_of_failure(StoreFailed(name))
            raise

    return call
