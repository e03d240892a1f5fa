"""What the URL of a Redis store says: which server, and how to use it."""

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct
from redis.asyncio.connection import parse_url

from mita.errors import UsageError
from mita.rules.names import check_namespace

CLUSTER_SCHEME = "redis+cluster"
_SCHEMES = ("redis", "rediss", "unix", CLUSTER_SCHEME)
_TLS_OPTIONS = (
    *("ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname"),
)
_OWN_OPTIONS = ("namespace", "allow_eviction", "timeout")
_EXAMPLE = "redis://[user:password@]host[:port][/db][?namespace=…]"
_DEFAULT_TIMEOUT_S = 30.0


class RedisAddress(Struct, frozen=True):
    """A URL, read. `driver` are the options for redis-py; `shown` is the URL without the
    password; after `timeout` seconds without an answer a call raises."""

    driver: dict[str, Any]
    shown: str
    cluster: bool
    namespace: str
    allow_eviction: bool
    timeout: float


def read_address(url: str, namespace: str = "mita") -> RedisAddress:
    """Read a URL. Raises `UsageError` for one that is not valid. `namespace` is used if the URL
    names none."""
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise UsageError(
            f"{parts.scheme}:// is not a Redis URL: use {_EXAMPLE}, rediss://, unix:// "
            f"or {CLUSTER_SCHEME}://"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    own = {name: options.pop(name, "") for name in _OWN_OPTIONS}
    unknown = sorted(set(options) - {*_TLS_OPTIONS, "db"})
    if unknown:
        raise UsageError(
            f"?{unknown[0]}= is not an option of a Redis URL: use namespace, allow_eviction, "
            "timeout or ssl_…"
        )
    database = parts.path.strip("/")
    if parts.scheme != "unix" and database and not database.isdigit():
        raise UsageError(
            f"{_without_password(url)}: {parts.path!r} is not the number of a database: use "
            f"{_EXAMPLE}"
        )
    cluster = parts.scheme == CLUSTER_SCHEME
    plain = parts._replace(scheme="redis" if cluster else parts.scheme, query=urlencode(options))
    return RedisAddress(
        driver=_driver_options(urlunsplit(plain)),
        shown=_without_password(url),
        cluster=cluster,
        namespace=check_namespace(own["namespace"] or namespace),
        allow_eviction=own["allow_eviction"] in ("1", "true", "yes"),
        timeout=_seconds(own["timeout"]) if own["timeout"] else _DEFAULT_TIMEOUT_S,
    )


def _driver_options(url: str) -> dict[str, Any]:
    try:
        return dict(parse_url(url))
    except ValueError as error:
        raise UsageError(f"this Redis URL is not valid ({error}): use {_EXAMPLE}") from error


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise UsageError(f"?timeout={text} is not a number of seconds above 0")
    return seconds


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rsplit("@", 1)[-1], query=""))
