"""From the annotations of a function to types that can be stored."""

import inspect
import typing
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec.inspect import CustomType, Field, Type, type_info

from mita.errors import UsageError

STORABLE = "plain values, dataclasses, msgspec Structs, datetimes, UUIDs, Decimals and bytes"


def resolve(fn: Callable[..., Any], annotation: Any) -> Any:
    """An annotation as a type, whether it was written as one or as text. Raises what its evaluation raises."""
    holder = SimpleNamespace(__annotations__={"it": annotation})
    return typing.get_type_hints(holder, globalns=_globals(fn), include_extras=True)["it"]


def _globals(fn: Callable[..., Any]) -> dict[str, Any]:
    """The names of the module that wrote the function, not of one that only wrapped it."""
    fn = inspect.unwrap(fn)
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__globals__", {})


def parameter_type(task: str, fn: Callable[..., Any], name: str, annotation: Any) -> Any:
    """The type of one parameter, or a `UsageError` that says why there is none."""
    try:
        found = resolve(fn, annotation)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise UsageError(
            f"task {task!r}: the annotation {annotation!r} of parameter {name!r} cannot be resolved ({error}); "
            "its names must be importable at run time: define or import them at the top of the module"
        ) from error
    if reason := why_not_storable(found):
        raise UsageError(
            f"task {task!r}: parameter {name!r} is annotated {in_words(found)}, which cannot be stored with a job "
            f"({reason}); arguments are {STORABLE}"
        )
    return found


def why_not_storable(kind: Any) -> str:
    """Empty when values of this type can be written down and read back."""
    try:
        msgspec.msgpack.Decoder(kind)
        strangers = [node.cls.__qualname__ for node in _nodes(type_info(kind)) if isinstance(node, CustomType)]
    except (TypeError, NameError, AttributeError) as error:
        return str(error)
    return f"there is no stored form of {', '.join(sorted(set(strangers)))}" if strangers else ""


def in_words(kind: Any) -> str:
    return kind.__qualname__ if isinstance(kind, type) else str(kind)


def _nodes(top: Type) -> Iterator[Type]:
    """Every type that a type is made of. Types may contain themselves."""
    seen: set[int] = set()
    ahead = [top]
    while ahead:
        node = ahead.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            ahead += _children(node)


def _children(node: Type) -> Iterator[Type]:
    for name in node.__struct_fields__:
        value = getattr(node, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Field):
                yield item.type
            elif isinstance(item, Type):
                yield item
