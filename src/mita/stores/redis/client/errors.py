"""What the errors of the driver and the server mean, in one table."""

from redis import exceptions as theirs

from mita.errors import Rejected, StoreError
from mita.stores.shared.words import UNREACHED

# What the driver raises for a cluster without nodes is no RedisError.
DRIVER_ERRORS = (theirs.RedisError, theirs.RedisClusterException, OSError)
CUT = (theirs.ConnectionError, theirs.TimeoutError, OSError)

# For these codes the driver raises a class of its own and removes the code from the text.
_REMOVED_CODES: tuple[tuple[type[Exception], str], ...] = (
    (theirs.ReadOnlyError, "READONLY"),
    (theirs.OutOfMemoryError, "OOM"),
    (theirs.BusyLoadingError, "LOADING"),
    (theirs.MasterDownError, "MASTERDOWN"),  # before its parent class, ClusterDownError
    (theirs.ClusterDownError, "CLUSTERDOWN"),
    (theirs.TryAgainError, "TRYAGAIN"),
    (theirs.NoPermissionError, "NOPERM"),
)

_WRONG_LOGIN = "the server refused the user name or the password: correct them in the URL"
_MISSING_LOGIN = "the server wants a password, and the URL has none: use redis://:password@host"

# A part of the server's error text, and what it means. Inside a script the code is in the middle of
# the text, so the text is searched and not compared. These do not go away by themselves:
_PERMANENT = {
    "WRONGPASS": _WRONG_LOGIN,
    "invalid username-password": _WRONG_LOGIN,
    "NOAUTH": _MISSING_LOGIN,
    "Authentication required": _MISSING_LOGIN,
    "invalid password": "the server refused the password: correct it in the URL",
    "AUTH <password> called without any password configured": (
        "the URL has a password, and the server has none: remove it from the URL"
    ),
    "NOPERM": (
        "this user has no permission for that: it needs the keys of the namespace, its channels, "
        "and scripts"
    ),
    "CERTIFICATE_VERIFY_FAILED": (
        "the server's certificate is not trusted: name its authority with ?ssl_ca_certs=<file>"
    ),
    "WRONGTYPE": (
        "a key of this namespace holds data that is not ours: use another namespace or database"
    ),
    "DB index is out of range": "the server has no database of that number: use a lower one",
    "SELECT is not allowed in cluster mode": (
        "a cluster has only database 0: remove the number from the URL"
    ),
}
# After these, a retry may help:
_TRANSIENT = {
    "READONLY": "the server has become a read-only replica: use the address of the primary",
    "OOM ": "the server is out of memory: raise its maxmemory, or start more workers",
    "Script killed": "a person killed the script; it had not written anything",
    "BUSY ": "the server is busy with a script that does not end: SCRIPT KILL ends it",
    "MISCONF": (
        "the server cannot write its snapshot to disk, and refuses writes: free space on its disk"
    ),
    "LOADING": "the server is still loading its data",
    "MASTERDOWN": "the replica has lost its primary",
    "NOREPLICAS": (
        "too few replicas are connected: start them, or lower the server's min-replicas-to-write"
    ),
    "Redis Cluster cannot be connected": f"no node of the cluster is reachable. {UNREACHED}",
    "CLUSTERDOWN": "the cluster has no node for some of its slots: start the nodes that are down",
    "TRYAGAIN": "the cluster is moving this slot",
}
_MEANINGS = [
    *((code, meaning, False) for code, meaning in _PERMANENT.items()),
    *((code, meaning, True) for code, meaning in _TRANSIENT.items()),
]


def explained(error: Exception, where: str) -> StoreError:
    """The error to raise in place of the driver's, with `where` in its text. The caller raises it
    from the driver's."""
    text = _with_code(error)
    for code, meaning, transient in _MEANINGS:
        if code in text:
            return StoreError(f"{where}: {meaning} ({text})", transient=transient)
    if isinstance(error, theirs.AuthenticationError | theirs.AuthorizationError):
        return StoreError(f"{where}: the server refused the login ({text})", transient=False)
    if isinstance(error, CUT):
        return StoreError(
            f"{where}: cannot reach the server ({text.rstrip('.')}). {UNREACHED}", transient=True
        )
    if isinstance(error, theirs.ResponseError):  # a script failed with these arguments
        return Rejected(f"{where}: {text}")
    return StoreError(f"{where}: {text}", transient=False)


def _with_code(error: Exception) -> str:
    """The server's own text. Redis 6 reports an error inside a script with its code in the middle
    of the text; later versions and Valkey report it as a plain error, whose code the driver
    removes."""
    text = str(error)
    code = next((code for kind, code in _REMOVED_CODES if isinstance(error, kind)), "")
    return f"{code} {text}" if code and code not in text else text


def is_cut(error: Exception) -> bool:
    """Whether the connection was lost, so that the call may or may not have been done."""
    return isinstance(error, CUT) and explained(error, "").transient
