"""Results of steps as arguments of later steps.

`Step.result` is a placeholder until the flow runs. In the stored arguments it is an extension of
MessagePack that has the place of the result, or the places of a list. Before the run the results
are filled in, and then the arguments are checked as always."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.msgpack import Ext

from .stored import encode, plain

RESULT_CODE = 2  # of the extension


class Places(Struct, frozen=True, array_like=True):
    """Where the results are: pairs of the first and the last place of a row."""

    rows: tuple[tuple[int, int], ...]
    is_list: bool


_pack = msgspec.msgpack.Encoder().encode
_read_places = msgspec.msgpack.Decoder(Places).decode


class ResultOf:
    """The result of a step, or the list of the results of several, as an argument. `steps` are
    the steps; `kinds` are what their tasks return."""

    __slots__ = ("flow", "is_list", "kinds", "steps")

    def __init__(
        self, flow: object, steps: Sequence[int], kinds: Sequence[Any], *, is_list: bool
    ) -> None:
        self.flow, self.steps, self.kinds, self.is_list = flow, tuple(steps), tuple(kinds), is_list

    def __repr__(self) -> str:
        named = ", ".join(map(str, self.steps[:3])) + (" …" if len(self.steps) > 3 else "")
        return f"<result of step {named}>"


def found_in(value: Any) -> Iterator[ResultOf]:
    """The placeholders in a value."""
    if isinstance(value, ResultOf):
        yield value
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from found_in(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from found_in(each)


def replaced(value: Any, by: Callable[[ResultOf], Any]) -> Any:
    """The value with each placeholder replaced."""
    if isinstance(value, ResultOf):
        return by(value)
    if isinstance(value, list | tuple):
        return [replaced(each, by) for each in value]
    if isinstance(value, dict):
        return {key: replaced(each, by) for key, each in value.items()}
    return value


def as_extension(places: Places) -> Ext:
    """What is stored in place of a result."""
    return Ext(RESULT_CODE, _pack(places))


def fill_in(payload: bytes, results: Sequence[bytes]) -> bytes:
    """The arguments with the results in their places. A payload without placeholders comes back as
    it is."""
    values = plain(payload)
    if not _has_extension(values):
        return payload
    return encode(_filled(values, results))


def _has_extension(value: Any) -> bool:
    if isinstance(value, Ext):
        return value.code == RESULT_CODE
    if isinstance(value, list):
        return any(_has_extension(each) for each in value)
    return isinstance(value, dict) and any(_has_extension(each) for each in value.values())


def _filled(value: Any, results: Sequence[bytes]) -> Any:
    if isinstance(value, Ext) and value.code == RESULT_CODE:
        places = _read_places(value.data)
        found = [
            plain(result) for first, last in places.rows for result in results[first : last + 1]
        ]
        return found if places.is_list else found[0]
    if isinstance(value, list):
        return [_filled(each, results) for each in value]
    if isinstance(value, dict):
        return {key: _filled(each, results) for key, each in value.items()}
    return value
