"""The arguments of a task, as bytes and back again.

Each task has one Struct with a field per parameter, made from its signature: calling it binds the arguments, encoding it
gives a MessagePack map by parameter name, and the typed decoder checks it, at the caller and again before the run. A
parameter left at its default is not stored: the worker's own default holds, so parameters can be added while jobs wait.
"""

import copy
import re
from collections.abc import Callable
from functools import cached_property
from inspect import Parameter
from typing import Any, NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, astuple

from mita.errors import UsageError

from .annotations import STORABLE, parameter_type
from .results import UNSTORABLE, Results
from .signature import read

PAYLOAD_LIMIT = 256 * 1024

_encode = msgspec.msgpack.Encoder().encode
_NO_NAMES: dict[str, Any] = {}  # nobody writes to it
_ROOT = re.compile(r"\$\.(\w+)")


class Codec(Struct, frozen=True):
    """The Struct of one task, its typed decoder, and how many of its fields are passed by position."""

    shape: type[Struct]
    decode: Callable[[bytes], Any]
    by_position: int


class Arguments:
    """Reads the signature at once, and the types at first use: by then every name they mention is defined."""

    def __init__(self, task: str, fn: Callable[..., Any]) -> None:
        self._task = task
        self._fn = fn
        self.signature, self.wants_job = read(task, fn)
        self.parameters = tuple(self.signature.parameters)
        self.required = tuple(p.name for p in self.signature.parameters.values() if p.default is Parameter.empty)
        results = Results(task, fn)
        self.pack_result: Callable[[Any], bytes] = results.pack
        self.unpack_result: Callable[[bytes], Any] = results.unpack

    def prepare(self) -> None:
        """Raise the `UsageError` that the first use would raise."""
        self._codec  # noqa: B018

    def pack(self, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int = PAYLOAD_LIMIT) -> bytes:
        """Bind, encode, check. Everything that does not fit is a `UsageError` that names the parameter."""
        return self.checked(args, kwargs, limit)[0]

    def checked(self, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int = PAYLOAD_LIMIT) -> tuple[bytes, Struct]:
        """The payload, and the arguments as the handler will see them."""
        codec = self._codec
        try:
            given = codec.shape(*args, **kwargs)
        except TypeError as error:
            self._refuse_binding(args, kwargs, error)
        try:
            payload = _encode(given)
            seen = codec.decode(payload)
        except msgspec.ValidationError as error:
            raise UsageError(f"task {self._task!r}: {_which(error)}") from error
        except UNSTORABLE as error:
            self._refuse_value(given, error)
        if len(payload) > limit:
            self._refuse_size(given, len(payload), limit)
        return payload, seen

    def unpack(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the function with. A payload that does not fit is a `UsageError` that says why."""
        codec = self._codec
        try:
            values = astuple(codec.decode(payload))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise UsageError(f"the stored arguments do not fit task {self._task!r}: {_which(error)}") from error
        if len(values) == codec.by_position:
            return values, _NO_NAMES
        names = codec.shape.__struct_fields__[codec.by_position :]
        return values[: codec.by_position], dict(zip(names, values[codec.by_position :], strict=True))

    @staticmethod
    def named(values: Struct) -> dict[str, Any]:
        return asdict(values)

    @cached_property
    def _codec(self) -> Codec:
        by_position = [p for p in self.signature.parameters.values() if p.kind is not Parameter.KEYWORD_ONLY]
        by_name = [p for p in self.signature.parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
        shape = self._shape([self._field(p) for p in by_position], Struct)
        if by_name:
            shape = self._shape([self._field(p) for p in by_name], shape, kw_only=True)
        return Codec(shape, msgspec.msgpack.Decoder(shape).decode, len(by_position))

    def _shape(self, fields: list[Any], base: type[Struct], *, kw_only: bool = False) -> type[Struct]:
        # Unknown fields are refused: an argument that this version of the handler would not see must not be dropped.
        return msgspec.defstruct(
            "Arguments", fields, bases=(base,), kw_only=kw_only, omit_defaults=True, forbid_unknown_fields=True
        )

    def _field(self, parameter: Parameter) -> Any:
        annotation = Any if parameter.annotation is Parameter.empty else parameter.annotation
        kind = parameter_type(self._task, self._fn, parameter.name, annotation)
        if parameter.default is Parameter.empty:
            return parameter.name, kind
        if type(parameter.default).__hash__ is None:  # mutable: every run gets its own
            return parameter.name, kind, msgspec.field(default_factory=lambda: copy.deepcopy(parameter.default))
        return parameter.name, kind, parameter.default

    # ------------------------------------------------------------ the slow paths, which find the words

    def _refuse_binding(self, args: tuple[Any, ...], kwargs: dict[str, Any], error: TypeError) -> NoReturn:
        reason = str(error)
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as plainer:
            reason = str(plainer)
        takes = self.signature.replace(return_annotation=self.signature.empty)
        raise UsageError(f"task {self._task!r}: {reason}; it takes {takes}") from error

    def _refuse_value(self, given: Struct, error: Exception) -> NoReturn:
        for name, value in asdict(given).items():
            try:
                _encode(value)
            except UNSTORABLE as reason:
                raise UsageError(
                    f"task {self._task!r}: parameter {name!r} is of type {type(value).__qualname__} and cannot be stored "
                    f"({reason}); arguments are {STORABLE}"
                ) from error
        raise UsageError(f"task {self._task!r}: the arguments cannot be stored ({error})") from error

    def _refuse_size(self, given: Struct, size: int, limit: int) -> NoReturn:
        sizes = {name: len(_encode(value)) for name, value in asdict(given).items()}
        largest = max(sizes, key=sizes.__getitem__)
        raise UsageError(
            f"task {self._task!r}: the arguments take {size:,} bytes and the limit is {limit:,} (parameter {largest!r} "
            f"alone takes {sizes[largest]:,}); store the data elsewhere and pass its name, or raise payload_limit"
        )


def _which(error: Exception) -> str:
    """`Expected `int`, got `str` - at `$.cents`` in the words of whoever wrote the call."""
    reason, _, path = str(error).partition(" - at ")
    parameter = _ROOT.search(path)
    if parameter is None:
        return reason
    deeper = "" if path == f"`$.{parameter[1]}`" else f" (at {path})"
    return f"parameter {parameter[1]!r}: {reason[:1].lower()}{reason[1:]}{deeper}"
