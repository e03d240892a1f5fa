"""The keys with which an app encrypts."""

import binascii
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Protocol

from mita.errors import UsageError
from mita.rules.sealed import MOST_KEY_ID_BYTES

KEY_BYTES = 32


class Keyring:
    """The keys with which an app encrypts arguments, results, errors, progress, steps and signals.

        keyring = Keyring(current="2026-11", keys={"2026-11": os.environ["MITA_KEY_2026_11"]})
        app = Mita("postgresql://localhost/shop", keyring=keyring)

    `keys` maps the id of each key to its 32 bytes, or to their base64 text as `Keyring.new_key()`
    makes it. The key `current` encrypts; every key decrypts. A value that is not encrypted is only
    accepted with `accept_plain=True`, which you need while an app begins to encrypt. Raises
    `UsageError` for a key of another size, and if `current` is not among the keys."""

    def __init__(
        self, current: str, keys: Mapping[str, bytes | str], *, accept_plain: bool = False
    ) -> None:
        if not keys:
            raise UsageError("Keyring(keys={}): give at least one key, {id: key}")
        self._ciphers = {id: _cipher(id, key) for id, key in keys.items()}
        if current not in self._ciphers:
            raise UsageError(
                f"Keyring(current={current!r}): there is no key of this id in keys; "
                f"there is {', '.join(map(repr, self._ciphers))}"
            )
        self.current, self.accept_plain = current, accept_plain

    @staticmethod
    def new_key() -> str:
        """Return a new random key as base64 text, for a secret store or an environment variable."""
        return b64encode(secrets.token_bytes(KEY_BYTES)).decode()

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the keys."""
        return tuple(self._ciphers)

    def __repr__(self) -> str:
        return f"Keyring(current={self.current!r}, keys of {', '.join(map(repr, self.ids))})"


class Cipher(Protocol):
    """What encrypts and authenticates: AES-256-GCM."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Return the ciphertext."""

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes | None) -> bytes:
        """Return the value. Raises `cryptography.exceptions.InvalidTag` if it was changed."""


def cipher_of(keyring: Keyring, id: str) -> Cipher | None:
    """The cipher of a key; None if it is not in the ring."""
    return keyring._ciphers.get(id)  # noqa: SLF001


def _cipher(id: str, key: bytes | str) -> Cipher:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise UsageError(
            "Keyring needs the package cryptography: pip install 'mita[encryption]'"
        ) from error
    fits = isinstance(id, str) and 1 <= len(id.encode()) <= MOST_KEY_ID_BYTES
    if not fits or not id.isprintable():
        raise UsageError(
            f"Keyring: the key id {id!r} must be a printable text of 1 to "
            f"{MOST_KEY_ID_BYTES} bytes, for example '2026-11'"
        )
    return AESGCM(_key_bytes(id, key))


def _key_bytes(id: str, key: Any) -> bytes:
    if isinstance(key, str):
        try:
            key = b64decode(key.strip(), validate=True)
        except (binascii.Error, ValueError):
            key = b""
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        # the key itself is never shown
        raise UsageError(
            f"Keyring: the key {id!r} must be {KEY_BYTES} bytes, or their base64 text; "
            "Keyring.new_key() makes one"
        )
    return key
