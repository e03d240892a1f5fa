"""The arguments of a step of which some are results of other steps, checked before it runs."""

from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from inspect import Parameter, Signature
from types import NoneType, UnionType
from typing import Any, NoReturn, Union, get_args, get_origin
from uuid import UUID

import msgspec
from msgspec import Struct

from mita.errors import UsageError

from .annotations import STORABLE, in_words, resolve, storable
from .placeholders import ResultOf, as_unknown, found_in, pack_with
from .stored import UNSTORABLE, encode, plain

_SEVERAL = (list, tuple, set, frozenset, dict)
_SINGLE = (str, int, float, bool, bytes, datetime, date, UUID, Decimal, NoneType)


class KnownArguments(dict[str, Any]):
    """The arguments of a step that are known before its flow runs, by name. They fill in the keys
    of the job. A key that needs another argument is refused."""

    def __missing__(self, name: str) -> NoReturn:
        raise UsageError(
            f"parameter {name!r} is the result of a step, and a key of the job (resource, unique, "
            "rate or fair) has it in its text; keys are filled in when the flow is enqueued. Pass "
            "the value itself, or let the handler of that step enqueue the job"
        )


class ParameterType(Struct, frozen=True):
    """The annotation of one parameter as a type, and what reads its values."""

    kind: Any
    read: Callable[[bytes], Any]


def parameter_types(fn: Callable[..., Any], signature: Signature) -> dict[str, ParameterType]:
    """The types of all parameters, by name."""
    found: dict[str, ParameterType] = {}
    for name, parameter in signature.parameters.items():
        annotation = Any if parameter.annotation is Parameter.empty else parameter.annotation
        kind = resolve(fn, annotation)
        found[name] = ParameterType(kind, storable(kind)[1].read)
    return found


def known_arguments(
    task: str, types: dict[str, ParameterType], values: dict[str, Any], limit: int
) -> KnownArguments:
    """Return the arguments that are known now. Raises `UsageError` for one that does not fit its
    parameter, for a result of a type that does not, and if all together take more than `limit`
    bytes."""
    known, size = KnownArguments(), 0
    for name, value in values.items():
        where, parameter = f"task {task!r}: parameter {name!r}", types[name]
        if found_in(value):
            size += _check_result(where, parameter.kind, value)
        else:
            packed = packed_value(where, value)
            size += len(packed)
            known[name] = read_value(where, parameter, packed)
    if size > limit:
        refuse_size(task, values, size, limit)
    return known


def packed_value(where: str, value: Any, pack: Callable[[Any], bytes] = encode) -> bytes:
    """Return an argument as bytes. Raises a `UsageError` that begins with `where` if it cannot be
    stored."""
    try:
        return pack(value)
    except UNSTORABLE as error:
        raise UsageError(
            f"{where} is of type {type(value).__qualname__} and cannot be stored ({error}); "
            f"arguments are {STORABLE}"
        ) from error


def read_value(where: str, parameter: ParameterType, packed: bytes) -> Any:
    """Return an argument as the handler sees it. Raises a `UsageError` that begins with `where` if
    it does not fit its parameter."""
    try:
        return parameter.read(packed)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise UsageError(f"{where}: {error}") from error


def _check_result(where: str, kind: Any, value: Any) -> int:
    """Check an argument that is a result, or has some in it. Returns its size."""
    is_several = value.is_list if isinstance(value, ResultOf) else isinstance(value, _SEVERAL)
    if is_several and not _takes_several(kind):
        raise UsageError(
            f"{where} is annotated {in_words(kind)}, and {value!r} is a list, a set or a dict; "
            "give one value, or correct the annotation"
        )
    if isinstance(value, ResultOf):
        wanted = _item_of(kind) if value.is_list else kind
        wrong = next((one for one in value.kinds if not may_be(one, wanted)), None)
        if wrong is not None:
            raise UsageError(
                f"{where} is annotated {in_words(kind)}, and {value!r} is {in_words(wrong)}; give "
                "a result that fits, or correct the annotation"
            )
    packed = packed_value(where, value, lambda one: pack_with(one, as_unknown))
    try:
        plain(packed)
    except msgspec.MsgspecError as error:
        raise UsageError(
            f"{where}: the result of a step cannot be a key of a dict; give it as a value"
        ) from error
    return len(packed)


def _takes_several(kind: Any) -> bool:
    """Whether a parameter of this type may be a list or a dict."""
    if get_origin(kind) in (Union, UnionType):
        return any(map(_takes_several, get_args(kind)))
    return kind not in _SINGLE


def _item_of(kind: Any) -> Any:
    """What a list of this type consists of; Any if it is no list."""
    if get_origin(kind) in (Union, UnionType):
        items = [_item_of(part) for part in get_args(kind) if part is not NoneType]
        return items[0] if len(items) == 1 else Any
    args = get_args(kind)
    return args[0] if get_origin(kind) in (list, Sequence, tuple, Iterable) and args else Any


def may_be(kind: Any, wanted: Any) -> bool:
    """Whether a value of this type may fit the wanted one. Only plain classes are compared; all
    else is checked when the step runs."""
    if get_origin(wanted) in (Union, UnionType):
        return any(may_be(kind, part) for part in get_args(wanted))
    kind, wanted = get_origin(kind) or kind, get_origin(wanted) or wanted
    if Any in (kind, wanted) or not isinstance(kind, type) or not isinstance(wanted, type):
        return True
    return issubclass(kind, wanted) or (kind is int and wanted is float)


def refuse_size(task: str, values: dict[str, Any], size: int, limit: int) -> NoReturn:
    """Raise the `UsageError` for arguments that take too many bytes."""
    sizes = {
        name: len(pack_with(value, as_unknown) if found_in(value) else encode(value))
        for name, value in values.items()
    }
    largest = max(sizes, key=sizes.__getitem__)
    raise UsageError(
        f"task {task!r}: the arguments take {size:,} bytes and the limit is {limit:,} "
        f"(parameter {largest!r} alone takes {sizes[largest]:,}); store the data elsewhere and "
        "pass its name, or raise payload_limit"
    )
