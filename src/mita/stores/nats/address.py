"""From a URL to a store: `nats://user:password@one:4222,two:4222?namespace=shop&replicas=3&creds=/path`."""

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from mita.errors import UsageError
from mita.ports.clock import Clock

from .store import NatsStore

SCHEMES = ("nats", "tls")
OPTIONS = ("namespace", "replicas", "creds", "token", "name")


def parse(url: str, namespace: str = "mita", clock: Clock | None = None) -> NatsStore:
    """A store for this URL; it connects to nothing yet. A namespace in the URL comes first."""
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        raise UsageError(f"{url!r}: a NATS URL begins with nats:// or tls://")
    where, _, query = rest.partition("?")
    who, _, hosts = where.rstrip("/").rpartition("@")
    given = _options(query)
    servers = [f"{scheme}://{_host(host)}" for host in hosts.split(",")]
    options = _credentials(unquote(who), given)
    if scheme == "tls":
        import ssl

        options["tls"] = ssl.create_default_context()
    replicas = _number(given.get("replicas", "1"))
    return NatsStore(servers, namespace=given.get("namespace", namespace), replicas=replicas, options=options, clock=clock)


def _options(query: str) -> dict[str, str]:
    try:
        given = {name: values[-1] for name, values in parse_qs(query, strict_parsing=bool(query)).items()}
    except ValueError as error:
        raise UsageError(f"?{query}: cannot be read: {error}") from error
    for name in given:
        if name not in OPTIONS:
            raise UsageError(f"?{name}= is not known to a nats:// URL: use {', '.join(OPTIONS)}")
    return given


def _host(host: str) -> str:
    try:
        found = urlsplit(f"//{host}")
        port = found.port
    except ValueError as error:
        raise UsageError(f"nats://{host}: {error}") from error
    if not found.hostname or found.path or any(char.isspace() for char in host):
        raise UsageError(f"nats://{host}: this is not the name of a server; write nats://host:4222")
    return host if port is not None else f"{host}:4222"


def _credentials(who: str, given: dict[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    user, colon, password = who.partition(":")
    if colon:
        options |= {"user": user, "password": password}
    elif user:
        options["token"] = user
    if "token" in given:
        options["token"] = given["token"]
    if "creds" in given:
        options["user_credentials"] = given["creds"]
    if "name" in given:
        options["name"] = given["name"]
    return options


def _number(text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"?replicas={text}: give a number: 1, 3 or 5")
    return int(text)
