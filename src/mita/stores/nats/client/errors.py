"""Errors of the driver and of the server, translated into ours. Each says whether a retry may
help (`transient`)."""

from nats.errors import (
    AuthorizationError,
    ConnectionClosedError,
    MaxPayloadError,
    NoServersError,
    SecureConnWantedError,
)
from nats.errors import (
    TimeoutError as NatsTimeout,
)

from mita.errors import Rejected, StoreError
from mita.stores.shared.words import UNREACHED

# Error codes of the JetStream API.
_PERMANENT_CODES = {
    10039: "JetStream is not enabled for this account",
    10076: "JetStream is not enabled: start nats-server with -js, or with a `jetstream` block in "
    "its configuration",
    10058: "the stream's name is in use with another configuration",
    10065: "its subjects overlap with those of another stream",
}
_TOO_LARGE_CODE = 10054  # larger than the stream's max_msg_size
_FULL_CODES = {10023, 10047, 10028, 10122, 10077, 10167}  # storage or a limit is used up
_TRANSIENT_CODES = {10008, 10009, 10074, 10118, 10166}
# The server accepted the connection and closed it at once: it is starting or stopping.
_CLOSED_AT_ONCE = "empty response from server"
_NO_ACCESS = "this user may not do that"
_FIX_ACCESS = "Check the user, password or token in the URL, or the user's permissions"


class ConnectionLost(StoreError):
    """There is no connection to the server at the moment."""


class NoServerAnswer(StoreError):
    """The server did not answer, so it is unknown whether it did what was asked."""


def translated(error: BaseException, what: str = "NATS") -> StoreError:
    """Returns our error for an error of the driver. `what` begins the message."""
    text = str(error) or type(error).__name__
    if isinstance(error, AuthorizationError) or is_refusal(text):
        return StoreError(f"{what}: {_NO_ACCESS} ({text}). {_FIX_ACCESS}", transient=False)
    if isinstance(error, SecureConnWantedError):
        return StoreError(
            f"{what}: the URL says tls://, but the server does not offer TLS", transient=False
        )
    if isinstance(error, MaxPayloadError):
        return Rejected(f"{what}: {text}")
    if isinstance(error, ValueError):
        return StoreError(f"{what}: {text}", transient=False)
    passing = isinstance(
        error, NoServersError | NatsTimeout | ConnectionClosedError | OSError | TimeoutError
    )
    return StoreError(f"{what}: {text}", transient=passing or _CLOSED_AT_ONCE in text)


def is_refusal(text: str) -> bool:
    """True if this error text says that the login or a permission was refused."""
    lowered = text.lower()
    return "authorization" in lowered or "permissions violation" in lowered


def unreached(error: BaseException, where: str) -> StoreError:
    """Returns our error for a first connection that failed. `where` names the servers."""
    ours = translated(error, f"NATS at {where}")
    if not ours.transient:
        return ours
    return StoreError(
        f"cannot reach NATS at {where} ({str(error) or type(error).__name__}). {UNREACHED}",
        transient=True,
    )


def refused(code: int, description: str) -> StoreError:
    """Returns our error for an error code of the JetStream API."""
    if code in _FULL_CODES:
        return StoreError(
            f"NATS has no room: {description} ({code}). Raise its limits, or keep ended jobs for "
            "a shorter time (keep=)",
            transient=True,
        )
    if code == _TOO_LARGE_CODE:
        return Rejected(
            f"NATS refused: {description} ({code}). Raise the stream's max_msg_size, or make the "
            "job smaller"
        )
    if code in _PERMANENT_CODES:
        return StoreError(f"{_PERMANENT_CODES[code]} ({description}, {code})", transient=False)
    return StoreError(f"NATS refused: {description} ({code})", transient=code in _TRANSIENT_CODES)
