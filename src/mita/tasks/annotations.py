"""From the annotations of a function to types that can be stored."""

import inspect
import typing
from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

from msgspec.inspect import CustomType, Field, Type, type_info

from mita.errors import UsageError

from .standins import is_special, replaced
from .stored import PayloadReader, reader, restore

STORABLE = (
    "plain values, bytes, sets, dates and times, UUIDs, Decimals, enums, paths, "
    "dataclasses, msgspec Structs and Pydantic models"
)


def resolve(fn: Callable[..., Any], annotation: Any) -> Any:
    """Return an annotation as a type, whether it was written as a type or as text. Raises what its
    evaluation raises."""
    holder = SimpleNamespace(__annotations__={"it": annotation})
    return typing.get_type_hints(holder, globalns=_globals(fn), include_extras=True)["it"]


def _globals(fn: Callable[..., Any]) -> dict[str, Any]:
    """The names of the module that wrote the function, not of a module that only wrapped it."""
    fn = inspect.unwrap(fn)
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__globals__", {})


def parameter_type(task: str, fn: Callable[..., Any], name: str, annotation: Any) -> Any:
    """Return the type of one parameter, as msgspec reads it. Raises a `UsageError` that says why it
    cannot be stored."""
    try:
        found = resolve(fn, annotation)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise UsageError(
            f"task {task!r}: the annotation {annotation!r} of parameter {name!r} cannot be "
            f"resolved ({error}); its names must be importable at run time: define or import them "
            "at the top of the module"
        ) from error
    try:
        return storable(found)[0]
    except UNREADABLE as error:
        raise UsageError(
            f"task {task!r}: parameter {name!r} is annotated {in_words(found)}, which cannot be "
            f"stored with a job ({error}); arguments are {STORABLE}"
        ) from error


# what a type raises that cannot be read
UNREADABLE = (TypeError, ValueError, NameError, AttributeError, ImportError)


def storable(kind: Any) -> tuple[Any, PayloadReader]:
    """Return the type as msgspec reads it, and its reader. Raises one of `UNREADABLE` if it cannot
    be stored."""
    made = replaced(kind, restore)
    read = reader(made)
    strangers = [node.cls for node in _nodes(type_info(made)) if isinstance(node, CustomType)]
    if unknown := sorted({cls.__qualname__ for cls in strangers if not is_special(cls)}):
        raise TypeError(f"there is no stored form of {', '.join(unknown)}")
    return made, read


def in_words(kind: Any) -> str:
    """The type as text, for an error message."""
    return kind.__qualname__ if isinstance(kind, type) else str(kind)


def _nodes(top: Type) -> Iterator[Type]:
    """Yield every type that a type consists of. Types may contain themselves."""
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
