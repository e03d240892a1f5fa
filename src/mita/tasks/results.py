"""What a function gives back, as bytes and back again."""

import inspect
from collections.abc import Callable
from functools import cached_property
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from mita.errors import UsageError

from .annotations import STORABLE, resolve, why_not_storable
from .signals import Reschedule

_encode = msgspec.msgpack.Encoder().encode
_plain = msgspec.msgpack.Decoder()
UNSTORABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)


class Results:
    """Typed by the function's return annotation when that is a type that can be stored; plain values otherwise."""

    def __init__(self, task: str, fn: Callable[..., Any]) -> None:
        self._task = task
        self._fn = fn

    def pack(self, value: Any) -> bytes:
        try:
            return _encode(value)
        except UNSTORABLE as error:
            if inspect.iscoroutine(value):
                value.close()
                raise UsageError(
                    f"task {self._task!r} is no async function, and returned one that nobody awaits: does a decorator hide "
                    "it? Let the decorator's own function be async"
                ) from error
            kind = type(value).__qualname__
            raise UsageError(
                f"task {self._task!r} returned a value of type {kind}, which cannot be stored ({error}); "
                f"results are {STORABLE}"
            ) from error

    def unpack(self, packed: bytes) -> Any:
        """A result that does not fit the annotation (any more) comes back as plain values."""
        try:
            return self._decoder.decode(packed)
        except msgspec.ValidationError:
            return _plain.decode(packed)

    @cached_property
    def _decoder(self) -> msgspec.msgpack.Decoder[Any]:
        annotation = getattr(self._fn, "__annotations__", {}).get("return", Any)
        try:
            kind = _without_reschedule(resolve(self._fn, annotation))
        except (NameError, AttributeError, TypeError, SyntaxError):
            return _plain
        return _plain if kind is Any or why_not_storable(kind) else msgspec.msgpack.Decoder(kind)


def _without_reschedule(kind: Any) -> Any:
    """`str | Reschedule` gives `str`: a returned Reschedule is never a result."""
    if get_origin(kind) not in (Union, UnionType):
        return Any if kind is Reschedule else kind
    return Union[tuple(part for part in get_args(kind) if part is not Reschedule)]  # noqa: UP007  (it is a tuple)
