"""What a URL says: where the server is, and how we use it."""

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct
from redis.asyncio.connection import parse_url

from mita.errors import UsageError
from mita.rules.names import check_namespace

CLUSTER = "redis+cluster"
_SCHEMES = ("redis", "rediss", "unix", CLUSTER)
_TLS = ("ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_check_hostname")
_LOOKS_LIKE = "redis://[user:password@]host[:port][/db][?namespace=…]"


class RedisAddress(Struct, frozen=True):
    """`driver` is what redis-py is told; `shown` has no password in it."""

    driver: dict[str, Any]
    shown: str
    cluster: bool
    namespace: str
    allow_eviction: bool
    timeout: float


def read_address(url: str, namespace: str = "mita") -> RedisAddress:
    parts = urlsplit(url)
    if parts.scheme not in _SCHEMES:
        raise UsageError(
            f"{parts.scheme}:// is not a Redis address: write {_LOOKS_LIKE}, rediss://, unix:// "
            f"or {CLUSTER}://"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    ours = {name: options.pop(name, "") for name in ("namespace", "allow_eviction", "timeout")}
    unknown = sorted(set(options) - {*_TLS, "db"})
    if unknown:
        raise UsageError(
            f"?{unknown[0]}= is not an option of a Redis address: use namespace, allow_eviction, "
            "timeout or ssl_…"
        )
    cluster = parts.scheme == CLUSTER
    if parts.scheme != "unix" and not parts.path.strip("/").isdigit() and parts.path.strip("/"):
        raise UsageError(
            f"{_without_password(url)}: {parts.path!r} is no number of a database: write "
            f"{_LOOKS_LIKE}"
        )
    plain = parts._replace(scheme="redis" if cluster else parts.scheme, query=urlencode(options))
    return RedisAddress(
        driver=_driver(urlunsplit(plain)),
        shown=_without_password(url),
        cluster=cluster,
        namespace=check_namespace(ours["namespace"] or namespace),
        allow_eviction=ours["allow_eviction"] in ("1", "true", "yes"),
        timeout=_seconds(ours["timeout"] or "30"),
    )


def _driver(url: str) -> dict[str, Any]:
    try:
        return dict(parse_url(url))
    except ValueError as error:
        raise UsageError(
            f"this Redis address cannot be read ({error}): write {_LOOKS_LIKE}"
        ) from error


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
