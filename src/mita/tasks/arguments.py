"""The arguments of a task, as bytes and back again.

Each task has two Structs with a field per parameter, made from its signature. Calling the first
binds the arguments, and encoding it returns a MessagePack map by parameter name. The second has the
types and the defaults: its decoder checks the map, at the caller and again before the run. What the
caller passed is stored, even if it equals the default. A parameter that the caller left out is not
stored: the worker's own default is used, so parameters can be added while jobs wait."""

import copy
import re
from collections.abc import Callable
from functools import cached_property
from inspect import Parameter
from typing import Any, NoReturn

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import asdict, astuple

from mita.errors import UsageError
from mita.rules.sealed import is_sealed, why_closed

from .annotations import STORABLE, parameter_type
from .choices import Choices
from .depends import dependency_in
from .hints import unknown_argument
from .models import is_model
from .pending import KnownArguments, ParameterType, known_arguments, parameter_types, refuse_size
from .placeholders import NeedsFlow, found_in
from .results import Results
from .signature import read
from .standins import StandIn
from .stored import UNSTORABLE, PayloadReader, encode, encode_big, encode_fast, reader

PAYLOAD_BYTES = 256 * 1024

_NO_NAMES: dict[str, Any] = {}  # never changed
_ROOT = re.compile(r"\$\.(\w+)")
_SENTENCE = re.compile(r"[A-Z][a-z]+ ")


class Codec(Struct, frozen=True):
    """How the arguments of one task are packed and read.

    `bind` is the Struct that takes what the caller passed. `decode` reads a payload as the Struct
    that the handler is called with; `reader` reads what `decode` cannot. `names` are its fields, of
    which the first `by_position` are passed by position. `ambiguous` names the parameters for which
    a value may be read as another class than the caller's."""

    bind: Callable[..., Struct]
    decode: Callable[[bytes], Struct]
    reader: PayloadReader
    names: tuple[str, ...]
    by_position: int
    ambiguous: tuple[str, ...]


class Arguments:
    """Packs and unpacks the arguments of one task. The signature is read at once, the types at
    first use: by then every name that they use is defined."""

    def __init__(self, task: str, fn: Callable[..., Any]) -> None:
        self._task = task
        self._fn = fn
        self.signature, self.wants_job, self.injection = read(task, fn)
        self.parameters = tuple(self.signature.parameters)
        self.required = tuple(
            p.name for p in self.signature.parameters.values() if p.default is Parameter.empty
        )
        self.results = Results(task, fn)
        self.pack_result: Callable[[Any], bytes] = self.results.pack
        self.unpack_result: Callable[[bytes], Any] = self.results.unpack

    def prepare(self) -> None:
        """Raise the `UsageError` that the first use would raise."""
        self._codec  # noqa: B018

    def pack(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int = PAYLOAD_BYTES
    ) -> bytes:
        """Bind, encode and check the arguments. Raises a `UsageError` that names the parameter
        which does not fit."""
        return self.checked(args, kwargs, limit)[0]

    def checked(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int = PAYLOAD_BYTES
    ) -> tuple[bytes, Struct]:
        """Return the payload, and the arguments as the handler will see them."""
        codec = self._codec
        try:
            given = codec.bind(*args, **kwargs)
        except TypeError as error:
            self._refuse_binding(args, kwargs, error)
        try:
            try:
                payload = encode_fast(given)
                seen = codec.decode(payload)
            except OverflowError:
                payload = encode_big(given)
                seen = codec.reader.read(payload)
        except msgspec.ValidationError as error:
            raise UsageError(f"task {self._task!r}: {_which(error)}") from error
        except UNSTORABLE as error:
            values = _given(given)
            if found_in(values):
                raise NeedsFlow(values) from None
            self._refuse_value(given, error)
        if codec.ambiguous:
            self._refuse_another_model(given, seen, codec.ambiguous)
        if len(payload) > limit:
            refuse_size(self._task, _given(given), len(payload), limit)
        return payload, seen

    def unpack(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what the function is called with. Raises a `UsageError` that says why a payload
        does not fit."""
        codec = self._codec
        try:
            values = astuple(codec.decode(payload))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            values = self._reread(codec, payload)
        if len(values) == codec.by_position:
            return values, _NO_NAMES
        names = codec.names[codec.by_position :]
        return values[: codec.by_position], dict(
            zip(names, values[codec.by_position :], strict=True)
        )

    def known(self, values: dict[str, Any], limit: int = PAYLOAD_BYTES) -> KnownArguments:
        """Check arguments of which some are results of other steps. Returns those that are known
        now, defaults included."""
        known = known_arguments(self._task, self.types, values, limit)
        for name, parameter in self.signature.parameters.items():
            if name not in values:
                known[name] = parameter.default
        return known

    @staticmethod
    def named(values: Struct) -> dict[str, Any]:
        """Return the arguments by parameter name."""
        return asdict(values)

    @cached_property
    def types(self) -> dict[str, ParameterType]:
        """The types of all parameters, by name."""
        return parameter_types(self._fn, self.signature)

    @cached_property
    def _codec(self) -> Codec:
        parameters = list(self.signature.parameters.values())
        by_position = sum(parameter.kind is not Parameter.KEYWORD_ONLY for parameter in parameters)
        bind = _struct([_passed(parameter) for parameter in parameters], by_position)
        fields = [self._seen(parameter) for parameter in parameters]
        read = reader(_struct(fields, by_position))
        ambiguous = tuple(
            name
            for name, kind, *_ in fields
            if isinstance(kind, type) and issubclass(kind, StandIn)
        )
        return Codec(bind, read.decode, read, self.parameters, by_position, ambiguous)

    def _seen(self, parameter: Parameter) -> Any:
        """The field of one parameter as the handler sees it: with its type and its default."""
        annotation = Any if parameter.annotation is Parameter.empty else parameter.annotation
        if dependency_in(self._fn, annotation) is not None:
            # it could not be resolved when the task was declared
            raise UsageError(
                f"task {self._task!r}: the annotation {annotation!r} of parameter "
                f"{parameter.name!r} names a provider that was defined after the task: define it "
                "above the task"
            )
        kind = parameter_type(self._task, self._fn, parameter.name, annotation)
        if parameter.default is Parameter.empty:
            return parameter.name, kind
        if type(parameter.default).__hash__ is None:  # mutable: every run gets its own
            return (
                parameter.name,
                kind,
                msgspec.field(default_factory=lambda: copy.deepcopy(parameter.default)),
            )
        return parameter.name, kind, parameter.default

    # --------------------------------------------------------- the slow paths, which find the words

    def _reread(self, codec: Codec, payload: bytes) -> tuple[Any, ...]:
        try:
            return astuple(codec.reader.reread(payload))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            why = why_closed(payload) if is_sealed(payload) else _which(error)
            raise UsageError(
                f"the stored arguments do not fit task {self._task!r}: {why}"
            ) from error

    def _refuse_binding(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], error: TypeError
    ) -> NoReturn:
        reason = str(error)
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as plainer:
            reason = str(plainer)
        takes = self.signature.replace(return_annotation=self.signature.empty)
        hints = (
            f"; {name!r} is filled in by the worker (Depends): leave it out"
            if self.injection and name in self.injection.names
            else unknown_argument(self._task, name, Choices.__annotations__)
            for name in kwargs
            if name not in self.parameters
        )
        raise UsageError(
            f"task {self._task!r}: {reason}; it takes {takes}{next(hints, '')}"
        ) from error

    def _refuse_value(self, given: Struct, error: Exception) -> NoReturn:
        for name, value in _given(given).items():
            try:
                encode(value)
            except UNSTORABLE as reason:
                raise UsageError(
                    f"task {self._task!r}: parameter {name!r} is of type "
                    f"{type(value).__qualname__} and cannot be stored "
                    f"({reason}); arguments are {STORABLE}"
                ) from error
        raise UsageError(
            f"task {self._task!r}: the arguments cannot be stored ({error})"
        ) from error

    def _refuse_another_model(
        self, given: Struct, seen: Struct, ambiguous: tuple[str, ...]
    ) -> None:
        """Pydantic may read one of two models for the other if their fields are alike."""
        for name in ambiguous:
            ours, theirs = type(getattr(given, name)), type(getattr(seen, name))
            if (
                ours is not theirs
                and is_model(ours)
                and is_model(theirs)
                and not issubclass(ours, theirs)
            ):
                raise UsageError(
                    f"task {self._task!r}: parameter {name!r}: a {ours.__qualname__} would be "
                    f"read as a {theirs.__qualname__}, which fits it as well; give the models a "
                    "field that tells them apart"
                )


def _struct(fields: list[Any], by_position: int) -> type[Struct]:
    """Make a Struct with these fields; only the first `by_position` may be passed by position. It
    refuses unknown fields: an argument that this version of the handler does not have must not be
    dropped."""
    shape = msgspec.defstruct("Arguments", fields[:by_position], forbid_unknown_fields=True)
    if by_position == len(fields):
        return shape
    rest = fields[by_position:]
    return msgspec.defstruct(
        "Arguments", rest, bases=(shape,), kw_only=True, forbid_unknown_fields=True
    )


def _passed(parameter: Parameter) -> Any:
    """The field of one parameter as the caller passes it. A parameter that is left out is UNSET,
    and UNSET is not encoded."""
    return (
        (parameter.name, Any)
        if parameter.default is Parameter.empty
        else (parameter.name, Any, UNSET)
    )


def _given(passed: Struct) -> dict[str, Any]:
    """The arguments that the caller passed, by name."""
    return {name: value for name, value in asdict(passed).items() if value is not UNSET}


def _which(error: Exception) -> str:
    """The text of a msgspec error, in terms of the task's parameters."""
    reason, _, path = str(error).partition(" - at ")
    parameter = _ROOT.search(path)
    if parameter is None:
        return reason
    deeper = "" if path == f"`$.{parameter[1]}`" else f" (at {path})"
    begin = reason[:1].lower() if _SENTENCE.match(reason) else reason[:1]
    return f"parameter {parameter[1]!r}: {begin}{reason[1:]}{deeper}"
