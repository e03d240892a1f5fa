"""Lists as PostgreSQL writes them down in text: `{1,2,NULL}`.

One text for a whole column is the same in every driver, always has the same type (so one prepared
statement serves), and is made several times faster than the drivers make arrays item by item."""

from collections.abc import Iterable, Sequence

from mita.errors import Rejected

# Characters of one list. A message to the server has at most 2^30 bytes: one that is longer ends
# the connection.
LARGEST = 2**29


def numbers(values: Iterable[int | None]) -> str:
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def flags(values: Iterable[bool]) -> str:
    return "{" + ",".join(["t" if value else "f" for value in values]) + "}"


def texts(values: Sequence[str | None]) -> str:
    try:
        # # a None among them shows itself by the error
        joined = '","'.join(values)  # type: ignore[arg-type]
    except TypeError:
        return _careful(values)
    if not values:
        return "{}"
    if (
        "\\" in joined
        or joined.count('"') != 2 * (len(values) - 1)
        or not joined.isascii()
        or "\0" in joined
    ):
        return _careful(values)
    return f'{{"{joined}"}}'


def blobs(values: Sequence[bytes | None]) -> str:
    text = (
        "{"
        + ",".join(["NULL" if value is None else f'"\\\\x{value.hex()}"' for value in values])
        + "}"
    )
    if len(text) > LARGEST:
        raise _too_large(len(text) // 2)
    return text


def check_size(value: bytes) -> None:
    """The same limit for a value by itself."""
    if len(value) > LARGEST // 2:
        raise _too_large(len(value))


def _too_large(size: int) -> Rejected:
    return Rejected(
        f"{size:,} bytes are more than PostgreSQL takes in one statement ({LARGEST // 2:,})"
    )


def _careful(values: Iterable[str | None]) -> str:
    return "{" + ",".join(["NULL" if value is None else _quoted(value) for value in values]) + "}"


def _quoted(value: str) -> str:
    escaped = storable(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def storable(text: str) -> str:
    """PostgreSQL keeps no NUL and no half characters in text; an error's message may have
    either."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
