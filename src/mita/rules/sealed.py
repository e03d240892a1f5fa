"""Encrypted values: how they look in a store, and what they are bound to.

An encrypted value begins with `SEALED_MARK`, a byte that no packed value begins with. Then come the
version, what it is bound to, the id of its key, a nonce and the ciphertext. It is bound to a place,
for example to the arguments of one job: moved to another place it cannot be opened."""

import binascii
from base64 import b64decode, b64encode
from enum import IntEnum

from .own_tasks import BULK_TASK

SEALED_MARK = b"\xc1"  # msgpack never uses this byte
SEALED_VERSION = 1
REFUSED = SEALED_MARK + b"\0"  # in place of a value that is not encrypted although it has to be
TEXT_MARK = "Encrypted: with the key "  # the first line of an encrypted text says what it is
NONCE_BYTES = 12
MOST_KEY_ID_BYTES = 64
OVERHEAD_BYTES = 4 + MOST_KEY_ID_BYTES + NONCE_BYTES + 16  # the last 16 authenticate the value
OWN_TASKS = "mita."  # so begin the names of the tasks of Mita itself


class BoundTo(IntEnum):
    """What arguments are bound to: their job; the unique key of jobs with `debounce`, whose
    arguments a newer enqueue replaces; or the repeat whose fires copy them."""

    JOB = 0
    UNIQUE_KEY = 1
    REPEAT = 2


class Header:
    """The part of an encrypted value before the ciphertext."""

    __slots__ = ("bound", "end", "key", "nonce", "raw")

    def __init__(self, value: bytes) -> None:
        """Read the header of an encrypted value. Raises `ValueError` if it has none."""
        try:
            version, bound, size = value[1:4]
            self.end = 4 + size + NONCE_BYTES
            self.bound, self.key = BoundTo(bound), value[4 : 4 + size].decode()
        except ValueError as error:
            raise ValueError("it is not an encrypted value of this version of Mita") from error
        if not is_sealed(value) or version != SEALED_VERSION or len(value) < self.end:
            raise ValueError("it is not an encrypted value of this version of Mita")
        self.raw, self.nonce = value[: 4 + size], value[4 + size : self.end]


def header(key: str, bound: BoundTo) -> bytes:
    """The first bytes of a value that is encrypted with this key."""
    name = key.encode()
    return SEALED_MARK + bytes((SEALED_VERSION, bound, len(name))) + name


def associated(head: bytes, place: tuple[str, ...]) -> bytes:
    """What the ciphertext authenticates beside the value: the header, and the place."""
    parts = [head, *(part.encode() for part in place)]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def is_sealed(value: bytes | None) -> bool:
    """Whether a value is encrypted (and was not opened)."""
    return value is not None and value.startswith(SEALED_MARK)


def is_locked(value: bytes) -> bool:
    """Whether a value is encrypted and another keyring may open it. A value that is damaged beyond
    its key is not."""
    return value == REFUSED or (is_sealed(value) and key_of(value) is not None)


def has_no_arguments(task: str) -> bool:
    """Whether jobs of this task have no arguments of users: those by which Mita runs flows."""
    return task.startswith(OWN_TASKS) and task != BULK_TASK


def is_sealed_text(text: str | None) -> bool:
    """Whether a text is encrypted (and was not opened)."""
    return text is not None and text.startswith(TEXT_MARK)


def as_text(value: bytes) -> str:
    """An encrypted value as a text, for fields that hold text."""
    return f"{TEXT_MARK}{Header(value).key!r}\n{b64encode(value).decode()}"


def from_text(text: str) -> bytes:
    """The encrypted value in a text; one that cannot be read for a text that is damaged."""
    try:
        return b64decode(text.rpartition("\n")[2], validate=True)
    except (binascii.Error, ValueError):
        return SEALED_MARK


def key_of(value: bytes) -> str | None:
    """The id of the key of an encrypted value; None if it has none."""
    try:
        return Header(value).key
    except ValueError:
        return None


def why_closed(value: bytes) -> str:
    """Why an encrypted value was not opened, in words."""
    if value == REFUSED:
        return (
            "it is not encrypted, and the keyring of this app only accepts encrypted values; "
            "Keyring(…, accept_plain=True) accepts it"
        )
    key = key_of(value)
    if key is None:
        return "it is encrypted in a way that this version of Mita does not know"
    return (
        f"it is encrypted with the key {key!r}: that key is not in the keyring of this app, or the "
        "value was changed or belongs to another job"
    )


def shown_text(text: str) -> str:
    """A text for people: of an encrypted one, only the line that says so."""
    return text.partition("\n")[0] if is_sealed_text(text) else text
