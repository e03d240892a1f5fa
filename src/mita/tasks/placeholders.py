"""Results of steps as arguments of later steps.

`Step.result` is a placeholder until the flow runs. In the stored arguments it is an extension of
MessagePack that has the place of the result, or the places of a list. Before the run the results
are filled in, and then the arguments are checked as always.

Placeholders are found, stored and filled in by the hooks of the encoder and the decoder. So they
may be wherever a value may be, and arguments without placeholders cost nothing."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
from msgspec import Raw, Struct
from msgspec.msgpack import Ext

from mita.errors import UsageError

from .stored import UNSTORABLE, encode, extension, plain, written

RESULT_CODE = 2  # of the extension


class Places(Struct, frozen=True, array_like=True):
    """Where the results are: pairs of the first and the last place of a row."""

    rows: tuple[tuple[int, int], ...]
    is_list: bool


_pack = msgspec.msgpack.Encoder().encode
_read_places = msgspec.msgpack.Decoder(Places).decode


class ResultOf:
    """The result of a step, or the list of the results of several, as an argument. `steps` are
    the steps; `kinds` are what their tasks return.

    For a type checker it is the value itself, so code that computes with it looks right. It raises
    `UsageError`, because the value is not known yet."""

    __slots__ = ("flow", "is_list", "kinds", "steps")

    def __init__(
        self, flow: object, steps: Sequence[int], kinds: Sequence[Any], *, is_list: bool
    ) -> None:
        self.flow, self.steps, self.kinds, self.is_list = flow, tuple(steps), tuple(kinds), is_list

    def __repr__(self) -> str:
        named = ", ".join(map(str, self.steps[:3])) + (" …" if len(self.steps) > 3 else "")
        return f"<results of steps {named}>" if self.is_list else f"<result of step {named}>"

    def __eq__(self, other: object) -> bool:
        return self is other if isinstance(other, ResultOf) else _refuse(self)

    __hash__ = object.__hash__

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):  # what Python and libraries ask of any object
                raise AttributeError(name)
            _refuse(self)


def _refuse(one: ResultOf, *_: object) -> NoReturn:
    raise UsageError(
        f"{one!r} is not known before the flow runs: pass it on as an argument of a step as it is, "
        "and compute with it in the handler of that step"
    )


_COMPUTING = (
    "str format bool len iter getitem contains call int float index lt le gt ge add radd sub rsub "
    "mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow and rand or ror xor rxor neg "
    "pos abs invert round await"
)
for _name in _COMPUTING.split():
    setattr(ResultOf, f"__{_name}__", _refuse)


class NeedsFlow(Exception):
    """Some arguments are results of steps. `values` are all arguments, by name."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        super().__init__("some arguments are results of steps of a flow")


def found_in(value: Any) -> list[ResultOf]:
    """The placeholders in a value, in their order. Of a value that cannot be stored, those before
    the part that cannot."""
    found: list[ResultOf] = []
    if value is None:
        return found

    def note(one: ResultOf) -> Ext:
        found.append(one)
        return as_unknown(one)

    with suppress(*UNSTORABLE):
        pack_with(value, note)
    return found


def pack_with(value: Any, by: Callable[[ResultOf], Ext]) -> bytes:
    """The value as bytes, with each placeholder replaced. Raises one of `UNSTORABLE` if it cannot
    be stored."""

    def hook(one: Any) -> Any:
        return by(one) if isinstance(one, ResultOf) else written(one)

    return msgspec.msgpack.Encoder(enc_hook=hook).encode(value)


def pack_arguments(values: dict[str, Any], by: Callable[[ResultOf], Ext]) -> bytes:
    """The arguments of a call as bytes, with each placeholder replaced."""
    return _pack(
        {
            name: Raw(pack_with(value, by) if found_in(value) else encode(value))
            for name, value in values.items()
        }
    )


def as_extension(places: Places) -> Ext:
    """What is stored in place of a result."""
    return Ext(RESULT_CODE, _pack(places))


def as_unknown(one: ResultOf) -> Ext:  # noqa: ARG001
    """What stands for a result of which no place is known yet."""
    return _UNKNOWN


_UNKNOWN = as_extension(Places((), is_list=False))


def _in_words(code: int, data: memoryview) -> Any:
    if code != RESULT_CODE:
        return extension(code, data)
    places = _read_places(bytes(data))
    count = sum(last - first + 1 for first, last in places.rows)
    return f"<the results of {count} steps>" if places.is_list else "<the result of a step>"


# arguments as plain values for people, with text in place of results
plain_arguments: Callable[[bytes], Any] = msgspec.msgpack.Decoder(ext_hook=_in_words).decode


def has_results(payload: bytes) -> bool:
    """Whether some of these stored arguments are results of steps, which are not known yet."""
    found = False

    def hook(code: int, data: memoryview) -> Any:
        nonlocal found
        found = found or code == RESULT_CODE
        return extension(code, data)

    msgspec.msgpack.Decoder(ext_hook=hook).decode(payload)
    return found


def fill_in(payload: bytes, results: Sequence[bytes]) -> bytes:
    """The arguments with the results in their places. A payload without placeholders comes back as
    it is."""
    filled = False

    def hook(code: int, data: memoryview) -> Any:
        nonlocal filled
        if code != RESULT_CODE:
            return extension(code, data)
        filled = True
        places = _read_places(bytes(data))
        found = [
            plain(result) for first, last in places.rows for result in results[first : last + 1]
        ]
        return found if places.is_list else found[0]

    values = msgspec.msgpack.Decoder(ext_hook=hook).decode(payload)
    return encode(values) if filled else payload
