"""The driver's and the server's errors as ours, with the word on whether trying again may help."""

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

_LASTING = {
    10039: "JetStream is not enabled for this account",
    10076: "JetStream is not enabled: start nats-server with -js, or with a `jetstream` block in "
    "its configuration",
    10058: "the stream's name is in use with another configuration",
    10065: "its subjects overlap with those of another stream",
}
# the peer took the connection and closed it: it starts, or stops
_CLOSED_AT_ONCE = "empty response from server"
_TOO_LARGE = 10054  # for the stream's max_msg_size
_FULL = {10023, 10047, 10028, 10122, 10077, 10167}  # storage or a limit is used up: it may be freed


class CutOff(StoreError):
    """There is no connection at the moment."""


class NoAnswer(StoreError):
    """Whether it was done is not known."""


def translated(error: BaseException, what: str = "NATS") -> StoreError:
    """Our error for the driver's."""
    text = str(error) or type(error).__name__
    if (
        isinstance(error, AuthorizationError)
        or "authorization" in text.lower()
        or "permissions violation" in text.lower()
    ):
        mend = "Mend the user, password or token in the URL, or its rights on the server"
        return StoreError(f"{what}: this user may not do that ({text}). {mend}", transient=False)
    if isinstance(error, SecureConnWantedError):
        return StoreError(
            f"{what}: the URL says tls:// and the server does not ask for TLS", transient=False
        )
    if isinstance(error, MaxPayloadError):
        return Rejected(f"{what}: {text}")
    if isinstance(error, ValueError):
        return StoreError(f"{what}: {text}", transient=False)
    passing = isinstance(
        error, NoServersError | NatsTimeout | ConnectionClosedError | OSError | TimeoutError
    )
    return StoreError(f"{what}: {text}", transient=passing or _CLOSED_AT_ONCE in text)


def unreached(error: BaseException, where: str) -> StoreError:
    """Our error for a first connection that did not come about."""
    told = translated(error, f"NATS at {where}")
    if not told.transient:
        return told
    return StoreError(
        f"cannot reach NATS at {where} ({str(error) or type(error).__name__}). {UNREACHED}",
        transient=True,
    )


def refused(code: int, description: str) -> StoreError:
    """Our error for an answer of the JetStream API."""
    if code in _FULL:
        return StoreError(
            f"NATS has no room: {description} ({code}). Raise its limits, or keep ended jobs for "
            "a shorter time (keep=)",
            transient=True,
        )
    if code == _TOO_LARGE:
        return Rejected(
            f"NATS refused: {description} ({code}). Raise the stream's max_msg_size, or make the "
            "job smaller"
        )
    if code in _LASTING:
        return StoreError(f"{_LASTING[code]} ({description}, {code})", transient=False)
    return StoreError(
        f"NATS refused: {description} ({code})",
        transient=code in (10008, 10009, 10074, 10118, 10166),
    )
