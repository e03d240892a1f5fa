"""Lists in PostgreSQL's text form: `{1,2,NULL}`.

One text for a whole column is the same in every driver and always has the same type, so one
prepared statement is enough. It is also made several times faster than the drivers make arrays,
which they do item by item."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from mita.errors import Rejected

# The longest text of one list. A message to the server has at most 2^30 bytes; a longer one ends
# the connection.
LARGEST_ARRAY_CHARS = 2**29


def numbers(values: Iterable[int | None]) -> str:
    """An array of numbers."""
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def flags(values: Iterable[bool]) -> str:
    """An array of booleans."""
    return "{" + ",".join(["t" if value else "f" for value in values]) + "}"


def texts(values: Sequence[str | None]) -> str:
    """An array of texts. Plain ASCII texts are joined in one go, others are escaped one by one."""
    try:
        # a None among them raises TypeError
        joined = '","'.join(values)  # type: ignore[arg-type]
    except TypeError:
        return _escaped(values)
    if not values:
        return "{}"
    if (
        "\\" in joined
        or joined.count('"') != 2 * (len(values) - 1)
        or not joined.isascii()
        or "\0" in joined
    ):
        return _escaped(values)
    return f'{{"{joined}"}}'


def blobs(values: Sequence[bytes | None]) -> str:
    """An array of bytes. Raises `Rejected` when it is too long for one message."""
    text = (
        "{"
        + ",".join(["NULL" if value is None else f'"\\\\x{value.hex()}"' for value in values])
        + "}"
    )
    if len(text) > LARGEST_ARRAY_CHARS:
        raise _too_large(len(text) // 2)
    return text


def jsons(values: Sequence[Any]) -> str:
    """An array of JSON values."""
    return texts(
        [None if value is None else msgspec.json.encode(value).decode() for value in values]
    )


def check_size(value: bytes) -> None:
    """Raises `Rejected` when a single value is too long for one message."""
    if len(value) > LARGEST_ARRAY_CHARS // 2:
        raise _too_large(len(value))


def _too_large(size: int) -> Rejected:
    limit = LARGEST_ARRAY_CHARS // 2
    return Rejected(f"{size:,} bytes are more than PostgreSQL takes in one statement ({limit:,})")


def _escaped(values: Iterable[str | None]) -> str:
    return "{" + ",".join(["NULL" if value is None else _quoted(value) for value in values]) + "}"


def _quoted(value: str) -> str:
    escaped = storable(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def storable(text: str) -> str:
    """The text without NUL and without lone surrogates, which PostgreSQL does not store. An error
    message may contain either."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
