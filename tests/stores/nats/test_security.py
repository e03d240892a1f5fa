"""Certificates, nkeys and credentials, on real servers."""

import base64
import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nkeys  # type: ignore[import-untyped]
import pytest

from mita.errors import MitaError, StoreError, UsageError
from mita.stores.nats import NatsStore, parse
from mita.testing.contract.given import claim_one, put, settled, succeed

from .servers import Server


@pytest.fixture
def serve() -> Iterator[Callable[[str], Server]]:
    servers: list[Server] = []

    def start(more: str) -> Server:
        servers.append(Server(more).start())
        return servers[-1]

    yield start
    for server in servers:
        server.remove()


async def works(store: NatsStore) -> None:
    await store.open()
    await put(store)
    await settled(store, succeed(await claim_one(store)))
    await store.close()


async def refusal(store: NatsStore) -> MitaError:
    with pytest.raises(MitaError) as caught:
        await store.open()
    return caught.value


# ---------------------------------------------------------------- certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority (`ca`), certificates that it signed for a server and for a client, and another
    authority (`other`)."""
    folder = tmp_path_factory.mktemp("certificates")
    for authority in ("ca", "other"):
        # Python 3.13 refuses an authority without these extensions
        usage = "-addext keyUsage=critical,keyCertSign,cRLSign"
        _openssl(
            folder,
            f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={authority} {usage}",
            authority,
            "-out",
        )
    for name in ("server", "client"):
        _openssl(folder, f"req -newkey rsa:2048 -nodes -subj /CN={name}", name, "-out", "csr")
        (folder / "names").write_text(
            "subjectAltName=IP:127.0.0.1,DNS:localhost\nauthorityKeyIdentifier=keyid"
        )
        signing = (
            "x509 -req -days 2 -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names "
            f"-in {name}.csr -out {name}.pem"
        )
        subprocess.run(["openssl", *signing.split()], cwd=folder, check=True, capture_output=True)
    return folder


def _openssl(folder: Path, what: str, name: str, out: str, suffix: str = "pem") -> None:
    files = ["-keyout", f"{name}.key", out, f"{name}.{suffix}"]
    subprocess.run(["openssl", *what.split(), *files], cwd=folder, check=True, capture_output=True)


def tls(folder: Path, more: str = "") -> str:
    return f'tls {{ cert_file: "{folder}/server.pem", key_file: "{folder}/server.key"\n{more} }}'


async def test_a_server_with_a_certificate(
    serve: Callable[[str], Server], certificates: Path
) -> None:
    server = serve(tls(certificates))
    await works(parse(f"tls://{server.address}?ca={certificates}/ca.pem"))


async def test_a_server_whose_certificate_another_authority_signed(
    serve: Callable[[str], Server], certificates: Path
) -> None:
    server = serve(tls(certificates))
    for url in (f"tls://{server.address}", f"tls://{server.address}?ca={certificates}/other.pem"):
        error = await refusal(parse(url))
        assert isinstance(error, StoreError)
        assert "certificate" in str(error).lower()
        assert not error.transient, "asking again will not make it another server"


async def test_a_server_without_a_certificate(
    serve: Callable[[str], Server], certificates: Path
) -> None:
    """With tls:// in the URL, no password is sent without TLS."""
    error = await refusal(parse(f"tls://u:p@{serve('').address}?ca={certificates}/ca.pem"))
    assert isinstance(error, StoreError)
    assert "does not offer TLS" in str(error)
    assert not error.transient


async def test_a_server_that_asks_for_a_client_certificate(
    serve: Callable[[str], Server], certificates: Path
) -> None:
    server = serve(tls(certificates, f'ca_file: "{certificates}/ca.pem"\nverify: true'))
    url = f"tls://{server.address}?ca={certificates}/ca.pem"
    await works(parse(f"{url}&cert={certificates}/client.pem&key={certificates}/client.key"))
    assert isinstance(await refusal(parse(url)), StoreError)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("tls://localhost?ca=/nowhere/ca.pem", "/nowhere/ca.pem"),
        ("nats://localhost?creds=/nowhere/me.creds", "/nowhere/me.creds"),
        ("tls://localhost?cert={here}", "go together"),
        ("tls://localhost?ca={here}", "cannot be read"),
        ("nats://localhost?ca={here}", "tls://"),
    ],
)
def test_files_that_are_not_there_or_make_no_sense(url: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        parse(url.format(here=__file__))


# ---------------------------------------------------------------- nkeys and credentials


class Key:
    """A key pair as NATS writes it."""

    def __init__(self, kind: int) -> None:
        self.seed: bytes = nkeys.encode_seed(os.urandom(32), kind)
        pair = nkeys.from_seed(bytearray(self.seed))
        self.public: str = pair.public_key.decode()
        self.sign: Callable[[bytes], bytes] = pair.sign


async def test_an_nkey(serve: Callable[[str], Server], tmp_path: Path) -> None:
    key, stranger = Key(nkeys.PREFIX_BYTE_USER), Key(nkeys.PREFIX_BYTE_USER)
    server = serve(f"authorization {{ users: [ {{ nkey: {key.public} }} ] }}")
    (tmp_path / "me").write_bytes(key.seed)
    (tmp_path / "stranger").write_bytes(stranger.seed)
    await works(parse(f"nats://{server.address}?nkey={tmp_path}/me"))
    error = await refusal(parse(f"nats://{server.address}?nkey={tmp_path}/stranger"))
    assert isinstance(error, StoreError)
    assert not error.transient


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def token(issuer: Key, subject: str, about: dict[str, Any]) -> str:
    claims = {
        "iat": 1,
        "iss": issuer.public,
        "name": "test",
        "sub": subject,
        "nats": {"version": 2, **about},
    }
    claims["jti"] = (
        base64.b32encode(hashlib.sha256(json.dumps(claims).encode()).digest()).decode().rstrip("=")
    )
    signed = ".".join(
        _base64(json.dumps(part).encode())
        for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, claims)
    )
    return f"{signed}.{_base64(issuer.sign(signed.encode()))}"


NO_LIMITS = dict.fromkeys(
    (
        "subs",
        "conn",
        "leaf",
        "imports",
        "exports",
        "data",
        "payload",
        "mem_storage",
        "disk_storage",
        "streams",
        "consumer",
    ),
    -1,
)


async def test_credentials(serve: Callable[[str], Server], tmp_path: Path) -> None:
    """An operator signs for an account, and the account for the user."""
    operator, user = Key(nkeys.PREFIX_BYTE_OPERATOR), Key(nkeys.PREFIX_BYTE_USER)
    account, system = Key(nkeys.PREFIX_BYTE_ACCOUNT), Key(nkeys.PREFIX_BYTE_ACCOUNT)
    trusted = token(operator, operator.public, {"type": "operator"})
    known = token(
        operator, account.public, {"type": "account", "limits": {**NO_LIMITS, "wildcards": True}}
    )
    servers = token(operator, system.public, {"type": "account"})
    ours = token(account, user.public, {"type": "user", "subs": -1, "data": -1, "payload": -1})
    accounts = f"{account.public}: {known}, {system.public}: {servers}"
    server = serve(
        f"operator: {trusted}\nsystem_account: {system.public}\nresolver: "
        f"MEMORY\nresolver_preload: {{ {accounts} }}"
    )
    seed = user.seed.decode()
    (tmp_path / "me.creds").write_text(
        f"-----BEGIN NATS USER JWT-----\n{ours}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
    await works(parse(f"nats://{server.address}?creds={tmp_path}/me.creds"))
    error = await refusal(parse(f"nats://{server.address}"))
    assert isinstance(error, StoreError)
    assert not error.transient
