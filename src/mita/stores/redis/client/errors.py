"""What the driver's errors mean to us, in one table."""

from redis import exceptions as theirs

from mita.errors import Rejected, StoreError
from mita.stores.shared.words import UNREACHED

# What the driver says of a cluster without nodes is no RedisError.
DRIVER_ERRORS = (theirs.RedisError, theirs.RedisClusterException, OSError)
CUT = (theirs.ConnectionError, theirs.TimeoutError, OSError)

_UNSAID = "the server wants a password, and the URL has none: write redis://:password@host"

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

# What a server's error text says, what it means, and whether trying again may help. Inside a script
# the code stands in the middle of the text, so it is looked for and not compared.
_MEANINGS: tuple[tuple[str, str, bool], ...] = (
    ("WRONGPASS", "the server refused the user name or the password: mend them in the URL", False),
    (
        "invalid username-password",
        "the server refused the user name or the password: mend them in the URL",
        False,
    ),
    ("NOAUTH", _UNSAID, False),
    ("Authentication required", _UNSAID, False),
    ("invalid password", "the server refused the password: mend it in the URL", False),
    (
        "AUTH <password> called without any password configured",
        "the URL has a password, and the server has none: leave it out",
        False,
    ),
    (
        "NOPERM",
        "this user may not do that: it needs the keys of the namespace, its channel, and scripts",
        False,
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "the server's certificate is none that we trust: say ?ssl_ca_certs=<file>",
        False,
    ),
    (
        "WRONGTYPE",
        (
            "a key of this namespace holds something that is not ours: use another namespace or "
            "database"
        ),
        False,
    ),
    ("READONLY", "the server has become a read-only replica: name the primary", True),
    ("OOM ", "the server is out of memory: raise its maxmemory, or let workers catch up", True),
    ("Script killed", "somebody killed the script; it had not written anything", True),
    ("BUSY ", "the server is busy with a script that does not end: SCRIPT KILL ends it", True),
    (
        "MISCONF",
        (
            "the server cannot write its snapshot to disk, and takes no more writes: free some "
            "room there"
        ),
        True,
    ),
    ("LOADING", "the server is still reading its data", True),
    ("MASTERDOWN", "the replica has lost its primary", True),
    (
        "NOREPLICAS",
        "too few replicas are there: start them, or lower its min-replicas-to-write",
        True,
    ),
    (
        "Redis Cluster cannot be connected",
        f"no node of the cluster can be reached. {UNREACHED}",
        True,
    ),
    (
        "CLUSTERDOWN",
        "the cluster has no node for some of its slots: start those that are down",
        True,
    ),
    ("TRYAGAIN", "the cluster is moving this slot", True),
    (
        "DB index is out of range",
        "the server has no database of that number: choose a lower one",
        False,
    ),
    (
        "SELECT is not allowed in cluster mode",
        "a cluster has only database 0: leave the number out",
        False,
    ),
)


def explained(error: Exception, where: str) -> StoreError:
    """The error to raise instead; the caller keeps the driver's as its cause."""
    text = _with_code(error)
    for code, meaning, transient in _MEANINGS:
        if code in text:
            return StoreError(f"{where}: {meaning} ({text})", transient=transient)
    if isinstance(error, theirs.AuthenticationError | theirs.AuthorizationError):
        return StoreError(f"{where}: the server refused us ({text})", transient=False)
    if isinstance(error, CUT):
        return StoreError(
            f"{where}: cannot reach the server ({text.rstrip('.')}). {UNREACHED}", transient=True
        )
    if isinstance(error, theirs.ResponseError):  # a script could not do it with what it was given
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
    """Whether the connection was lost, so that nobody knows if the call was done."""
    return isinstance(error, CUT) and explained(error, "").transient
