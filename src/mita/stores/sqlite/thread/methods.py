"""Verbs as methods of the store."""

from collections.abc import Callable, Coroutine
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from mita.stores.sqlite.context import SqliteContext

from .connection_thread import ConnectionThread

P = ParamSpec("P")
T = TypeVar("T")


class HasThreads(Protocol):
    """A store with a thread that writes and a thread that reads."""

    writer: ConnectionThread
    reader: ConnectionThread


def written(
    verb: Callable[Concatenate[SqliteContext, P], T], *, durable: bool = True
) -> Callable[Concatenate[HasThreads, P], Coroutine[Any, Any, T]]:
    """A method that calls `verb` inside a transaction of the writing thread. `durable`: what it
    wrote is on disk when the method returns."""

    async def method(self: HasThreads, /, *args: P.args, **named: P.kwargs) -> T:
        return await self.writer.call(verb, args, named, durable=durable)

    update_wrapper(method, verb)
    return method


def read(
    verb: Callable[Concatenate[SqliteContext, P], T],
) -> Callable[Concatenate[HasThreads, P], Coroutine[Any, Any, T]]:
    """A method that calls `verb` on the reading thread."""

    async def method(self: HasThreads, /, *args: P.args, **named: P.kwargs) -> T:
        return await self.reader.call(verb, args, named)

    update_wrapper(method, verb)
    return method
