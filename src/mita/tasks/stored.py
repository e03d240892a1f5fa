"""Values as bytes and back again: MessagePack by type, with forms of our own for what msgspec does
not know.

Paths and Pydantic models are written as plain values, integers beyond 64 bits as an extension of
MessagePack."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import PurePath
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.msgpack import Ext

from mita.model.time import SECOND
from mita.rules.judge import LOCKED_WAIT_MS
from mita.rules.sealed import is_locked, why_closed

from . import models
from .signals import Reschedule
from .standins import NATIVE, StandIn

# the code of the extension: its bytes are the integer, signed, the highest byte first
BIG_INT_CODE = 1
LARGEST, SMALLEST = 2**64 - 1, -(2**63)  # of what MessagePack itself has
UNSTORABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)


def opened(value: bytes) -> bytes:
    """Return a stored value that is not encrypted (any more). Raises `Reschedule` for one that this
    app cannot decrypt: the job waits for a worker that has the key."""
    if is_locked(value):
        raise Reschedule(
            after=LOCKED_WAIT_MS / SECOND,
            reason=f"a value that it has stored cannot be read: {why_closed(value)}",
        )
    return value


def written(value: Any) -> Any:
    """Return a value that msgspec does not know as plain values. Raises a `TypeError` if it cannot
    be stored."""
    kind: Any = type(value)
    if isinstance(value, PurePath):
        return str(value)
    if models.is_model(kind):
        return models.adapter(kind).dump(value)
    why_not = getattr(kind, "WHY_NOT_STORED", f"there is no stored form of {kind.__qualname__}")
    raise TypeError(why_not)


def restore(kind: Any, stored: Any) -> Any:
    """Return the value of a class that msgspec does not know, from what is stored."""
    if issubclass(kind, StandIn):
        return kind.load(stored)
    if issubclass(kind, PurePath):
        if not isinstance(stored, str):
            raise TypeError(f"Expected `str`, got `{type(stored).__name__}`")
        return kind(stored)
    return models.adapter(kind).load(stored)


def extension(code: int, data: memoryview) -> Any:
    """Return the value of an extension of MessagePack; one of an unknown code as it is."""
    return (
        int.from_bytes(data, "big", signed=True) if code == BIG_INT_CODE else Ext(code, bytes(data))
    )


# raises OverflowError for an integer beyond 64 bits
encode_fast = msgspec.msgpack.Encoder(enc_hook=written).encode
# without a type, as plain values
plain: Callable[[bytes], Any] = msgspec.msgpack.Decoder(ext_hook=extension).decode


def encode(value: Any) -> bytes:
    """Return the value as bytes. Raises one of `UNSTORABLE` if it cannot be stored."""
    try:
        return encode_fast(value)
    except OverflowError:
        return encode_big(value)


def encode_big(value: Any) -> bytes:
    """Encode a value that contains integers beyond 64 bits."""
    return encode_fast(
        _extended(msgspec.to_builtins(value, builtin_types=(*NATIVE, datetime), enc_hook=written))
    )


def _extended(value: Any) -> Any:
    if isinstance(value, dict):
        if any(isinstance(_extended(key), Ext) for key in value):
            raise TypeError("an integer beyond 64 bits cannot be a key of a dict")
        return {key: _extended(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_extended(each) for each in value]
    if isinstance(value, int) and not SMALLEST <= value <= LARGEST:
        return Ext(BIG_INT_CODE, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))
    return value


class PayloadReader(Struct, frozen=True):
    """Reads bytes as one type. `decode` is msgspec's own, which knows no integers beyond 64 bits;
    `reread` does."""

    decode: Callable[[bytes], Any]
    reread: Callable[[bytes], Any]

    def read(self, packed: bytes) -> Any:
        """Return the value. Raises a `msgspec.ValidationError` for bytes that do not fit the
        type."""
        try:
            return self.decode(packed)
        except msgspec.ValidationError:
            return self.reread(packed)


def reader(kind: Any) -> PayloadReader:
    """Make the reader of a type whose stand-ins are in place. Raises a `TypeError` for a type that
    msgspec cannot read."""
    decode = msgspec.msgpack.Decoder(kind, dec_hook=restore, ext_hook=extension).decode
    return PayloadReader(decode, partial(_reread, kind))


def _reread(kind: Any, packed: bytes) -> Any:
    return msgspec.convert(plain(packed), kind, builtin_types=NATIVE, dec_hook=restore)
