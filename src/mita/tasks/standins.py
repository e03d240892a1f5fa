"""Stand-ins for types that msgspec cannot read: classes of our own that say how to read a value.

Three kinds of types need one: a union with a path or a model in it, an enum whose values are
neither all text nor all integers, and types that only Pydantic can validate."""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec import inspect

from . import models

# MessagePack has a form of its own for these: they are not read from text
NATIVE = (bytes, bytearray, memoryview)
_MAPS = (inspect.DictType, inspect.StructType, inspect.DataclassType, inspect.TypedDictType)
_TEXTS = (
    inspect.StrType,
    inspect.EnumType,
    inspect.LiteralType,
    inspect.DateTimeType,
    inspect.DateType,
    inspect.TimeType,
    inspect.TimeDeltaType,
    inspect.UUIDType,
    inspect.DecimalType,
)


class _Accepting(type):
    """A metaclass that accepts every instance: msgspec checks whether the value that was read is an
    instance of the annotated class, and a stand-in has no instances."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class StandIn(metaclass=_Accepting):
    """`load` makes the value from what is stored. It raises a `ValueError` or `TypeError` for what
    does not fit."""

    load: Callable[[Any], Any]


def is_special(kind: Any) -> bool:
    """Whether msgspec calls our hooks for this class."""
    return isinstance(kind, type) and (
        issubclass(kind, StandIn | PurePath) or models.is_model(kind)
    )


def replaced(kind: Any, restore: Callable[[type, Any], Any]) -> Any:
    """Return `kind` with stand-ins where msgspec needs them. `restore` is the hook that reads
    special classes."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        base, *rest = parts
        if any(map(models.is_constraint, rest)):
            return _stand_in(str(base), models.Adapter(kind).load)
        return Annotated[(replaced(base, restore), *rest)]
    if origin in (Union, UnionType):
        return _union(parts, str(kind), restore)
    if isinstance(kind, type) and origin is None:
        return _class(kind)
    if origin is Literal or not parts:
        return kind
    made = tuple(
        part if part is Ellipsis or isinstance(part, list) else replaced(part, restore)
        for part in parts
    )
    return kind if made == parts else cast(Any, origin)[made]


def _stand_in(words: str, load: Callable[[Any], Any]) -> type:
    return _Accepting(words, (StandIn,), {"load": staticmethod(load)})


def _class(kind: type) -> type:
    if models.is_model(kind):
        return _stand_in(kind.__qualname__, models.adapter(kind).load)
    if issubclass(kind, Enum) and not _is_native(kind):
        return _stand_in(kind.__qualname__, _members(kind))
    return kind


def _is_native(kind: type[Enum]) -> bool:
    values = [member.value for member in kind]
    return any(all(isinstance(value, plain) for value in values) for plain in (str, int))


def _members(kind: type[Enum]) -> Callable[[Any], Enum]:
    """Reads a member by its value, as the value is stored: a tuple comes back as a list."""
    packed = {msgspec.msgpack.encode(member.value): member for member in kind}

    def load(stored: Any) -> Enum:
        member = packed.get(msgspec.msgpack.encode(stored))
        if member is None:
            raise ValueError(f"Invalid enum value {stored!r}")
        return member

    return load


def _union(members: tuple[Any, ...], words: str, restore: Callable[[type, Any], Any]) -> Any:
    """msgspec reads a union by the form of what is stored, and knows no form of a special class.
    The stand-in tries the models together, because Pydantic chooses the best fit; then each other
    special class; then all that msgspec knows."""
    parts = tuple(replaced(member, restore) for member in members)
    special = [part for part in parts if is_special(part)]
    native = tuple(part for part in parts if not is_special(part))
    if not special or (len(special) == 1 and native in ((), (NoneType,))):
        return _either(parts)
    modelled = tuple(member for member in members if models.is_model(member))
    readers = [models.Adapter(_either(modelled)).load] if modelled else []
    others = [
        part
        for part, member in zip(parts, members, strict=True)
        if part in special and member not in modelled
    ]
    readers += [partial(restore, part) for part in others]
    if native:
        known = _either(native)
        _refuse_lookalikes(
            words,
            known,
            maps=bool(modelled),
            texts=any(issubclass(part, PurePath) for part in special),
        )
        readers.append(partial(msgspec.convert, type=known, builtin_types=NATIVE, dec_hook=restore))
    return _stand_in(words, partial(_first_that_fits, readers))


def _either(kinds: tuple[Any, ...]) -> Any:
    return Union[kinds]  # noqa: UP007  (it is a tuple)


def _first_that_fits(readers: Sequence[Callable[[Any], Any]], stored: Any) -> Any:
    reasons = []
    for read in readers:
        try:
            return read(stored)
        except (ValueError, TypeError) as error:  # a ValidationError of msgspec is a ValueError
            reasons.append(str(error))
    raise ValueError("; or ".join(reasons))


def _refuse_lookalikes(words: str, known: Any, *, maps: bool, texts: bool) -> None:
    """Raise if a stored value would not say which member of the union it is."""
    found = inspect.type_info(known)
    for node in found.types if isinstance(found, inspect.UnionType) else (found,):
        if (maps and isinstance(node, _MAPS)) or (texts and isinstance(node, _TEXTS)):
            kind = (
                "a model and another type that is stored as a map"
                if isinstance(node, _MAPS)
                else "a path and a text"
            )
            raise TypeError(
                f"{words}: {kind} look the same when they are stored; annotate it with one of them"
            )
