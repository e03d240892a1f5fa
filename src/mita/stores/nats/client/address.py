"""Reading a store URL:
`nats://user:password@one:4222,two:4222?namespace=shop&replicas=3&creds=/path`.

Files are given by their paths. `creds` and `nkey` identify this client. For `tls://`, `ca` is the
certificate authority of the server (default: those of this system), and `cert` and `key` are for a
server that asks for a client certificate."""

import ssl
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from msgspec import Struct

from mita.errors import UsageError

SCHEMES = ("nats", "tls")
FILE_PARAMETERS = ("creds", "nkey", "ca", "cert", "key")
PARAMETERS = ("namespace", "replicas", "token", "name", *FILE_PARAMETERS)


class NatsAddress(Struct, frozen=True):
    """What a URL says: servers, options of the driver, and the namespace if it names one."""

    servers: list[str]
    options: dict[str, Any]
    replicas: int
    namespace: str | None


def parse_address(url: str) -> NatsAddress:
    """Read a `nats://` or `tls://` URL. Raises UsageError if something in it is wrong."""
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        raise UsageError(f"{url!r}: a NATS URL begins with nats:// or tls://")
    where, _, query = rest.partition("?")
    user, _, hosts = where.rstrip("/").rpartition("@")
    given = _parameters(query)
    servers = [f"{scheme}://{_host(host)}" for host in hosts.split(",")]
    options = _credentials(unquote(user), given)
    if scheme == "tls":
        options["tls"] = _tls(given)
    elif wrong := [name for name in ("ca", "cert", "key") if name in given]:
        raise UsageError(f"?{wrong[0]}= is for tls:// and this is a nats:// URL")
    replicas = _number(given.get("replicas", "1"))
    return NatsAddress(servers, options, replicas, given.get("namespace"))


def _parameters(query: str) -> dict[str, str]:
    try:
        given = {
            name: values[-1] for name, values in parse_qs(query, strict_parsing=bool(query)).items()
        }
    except ValueError as error:
        raise UsageError(f"?{query}: not a valid query: {error}") from error
    for name in given:
        if name not in PARAMETERS:
            raise UsageError(
                f"?{name}= is not a parameter of a nats:// URL; use {', '.join(PARAMETERS)}"
            )
        if name in FILE_PARAMETERS and not Path(given[name]).is_file():
            raise UsageError(f"?{name}={given[name]}: there is no such file")
    return given


def _tls(given: dict[str, str]) -> ssl.SSLContext:
    if ("cert" in given) != ("key" in given):
        raise UsageError(
            "?cert= and ?key= go together: the certificate and the private key that belongs to it"
        )
    try:
        context = ssl.create_default_context(cafile=given.get("ca"))
        if "cert" in given:
            context.load_cert_chain(given["cert"], given["key"])
    except ssl.SSLError as error:
        named = ", ".join(
            f"?{name}={given[name]}" for name in ("ca", "cert", "key") if name in given
        )
        raise UsageError(f"{named}: cannot be read: {error}") from error
    return context


def _host(host: str) -> str:
    try:
        found = urlsplit(f"//{host}")
        port = found.port
    except ValueError as error:
        raise UsageError(f"nats://{host}: {error}") from error
    if not found.hostname or found.path or any(char.isspace() for char in host):
        raise UsageError(f"nats://{host}: this is not the name of a server; write nats://host:4222")
    return host if port is not None else f"{host}:4222"


def _credentials(given_user: str, given: dict[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    user, colon, password = given_user.partition(":")
    if colon:
        options |= {"user": user, "password": password}
    elif user:
        options["token"] = user
    if "token" in given:
        options["token"] = given["token"]
    if "creds" in given:
        options["user_credentials"] = given["creds"]
    if "nkey" in given:
        options["nkeys_seed"] = given["nkey"]
    if ("creds" in given or "nkey" in given) and find_spec("nkeys") is None:
        raise UsageError("?creds= and ?nkey= need the package nkeys: pip install 'mita[nats-keys]'")
    if "name" in given:
        options["name"] = given["name"]
    return options


def _number(text: str) -> int:
    if not text.isdigit():
        raise UsageError(f"?replicas={text}: use 1, 3 or 5")
    return int(text)
