"""The result of a function, as bytes and back again."""

import inspect
from collections.abc import Callable
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from mita.errors import StoreError, UsageError

from .annotations import STORABLE, UNREADABLE, in_words, resolve, storable
from .signals import Reschedule
from .stored import UNSTORABLE, PayloadReader, encode, encode_fast, plain

_SIMPLE = (str, int, float, bytes)  # of these, one look at a value says whether it fits


class Results:
    """Packs and unpacks results: by the function's return annotation if that type can be stored,
    else as plain values."""

    def __init__(self, task: str, fn: Callable[..., Any]) -> None:
        self._task = task
        self._fn = fn

    def pack(self, value: Any) -> bytes:
        """Return the bytes of a result. Raises a `UsageError` that says why it does not fit the
        annotation."""
        try:
            packed = encode_fast(value)
        except UNSTORABLE:
            packed = self.pack_any(value)
        if self._reader is None or (self._simple and isinstance(value, self._kind)):
            return packed
        try:
            self._reader.decode(packed)
        except (msgspec.MsgspecError, ValueError, RecursionError):  # or an integer beyond 64 bits
            self._check(value, packed, self._reader)
        return packed

    @cached_property
    def none_fits(self) -> bool:
        """Whether the function may return None."""
        return (
            self._kind in (Any, None, NoneType)
            or self._reader is None
            or self._fits(encode(None), self._reader) is None
        )

    def _check(self, value: Any, packed: bytes, reader: PayloadReader) -> None:
        if (reason := self._fits(packed, reader)) is not None:
            raise UsageError(
                f"task {self._task!r} returned a value of type {type(value).__qualname__}, and "
                f"its annotation says {in_words(self._kind)} ({reason}); return what the "
                "annotation says, or correct the annotation"
            )

    @staticmethod
    def _fits(packed: bytes, reader: PayloadReader) -> str | None:
        """Return None if the result fits, else what does not fit."""
        try:
            reader.read(packed)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            return str(error)
        return None

    def pack_any(self, value: Any) -> bytes:
        """Return the bytes of any value that can be stored, with any annotation."""
        try:
            return encode(value)
        except UNSTORABLE as error:
            if inspect.iscoroutine(value):
                value.close()
                raise UsageError(
                    f"task {self._task!r} is no async function, and returned a coroutine that "
                    "no code awaits: does a decorator hide it? Let the decorator's own function be "
                    "async"
                ) from error
            kind = type(value).__qualname__
            raise UsageError(
                f"task {self._task!r} returned a value of type {kind}, which cannot be stored "
                f"({error}); results are {STORABLE}"
            ) from error

    def unpack(self, packed: bytes) -> Any:
        """Return the result. One that does not fit the annotation (any more) is returned as plain
        values. One that cannot be read raises `StoreError`."""
        try:
            return self._unpack(packed)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise StoreError(
                f"a stored result of task {self._task!r} cannot be read: {error}", transient=False
            ) from error

    def unpack_exactly(self, packed: bytes) -> Any:
        """Return the result. One that does not fit the annotation, or cannot be read, raises an
        error of msgspec."""
        return plain(packed) if self._reader is None else self._reader.read(packed)

    def _unpack(self, packed: bytes) -> Any:
        if self._reader is None:
            return plain(packed)
        try:
            return self._reader.read(packed)
        except msgspec.ValidationError:
            return plain(packed)

    @property
    def kind(self) -> Any:
        """The return annotation as a type; Any if there is none."""
        return self._kind

    @cached_property
    def _kind(self) -> Any:
        """The return annotation as a type; Any if there is none, or if its names cannot be
        resolved."""
        annotation = getattr(self._fn, "__annotations__", {}).get("return", Any)
        try:
            return _without_reschedule(resolve(self._fn, annotation))
        except (NameError, AttributeError, TypeError, SyntaxError):
            return Any

    @cached_property
    def _simple(self) -> bool:
        return self._kind in _SIMPLE

    @cached_property
    def _reader(self) -> PayloadReader | None:
        """The reader of the annotated type; None if the annotation does not restrict what is
        stored."""
        try:
            return None if self._kind is Any else storable(self._kind)[1]
        except UNREADABLE:
            return None


def _without_reschedule(kind: Any) -> Any:
    """`str` for `str | Reschedule`: a returned Reschedule is never a result."""
    if get_origin(kind) not in (Union, UnionType):
        return Any if kind is Reschedule else kind
    # it is a tuple
    return Union[tuple(part for part in get_args(kind) if part is not Reschedule)]  # noqa: UP007
