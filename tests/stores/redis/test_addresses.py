"""The other ways to a server: encrypted, and by a socket in the file system."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mita.errors import StoreError
from mita.model.outcome import Settlement
from mita.rules.judge import success
from mita.stores.redis import RedisStore

from .load import QUEUE, jobs
from .servers import Server, bundled, free_port, system


class Guarded:
    """A server that speaks TLS, with a certificate that was made for this test and signs itself."""

    def __init__(self, folder: Path) -> None:
        self.certificate, key = folder / "server.crt", folder / "server.key"
        self.port = free_port()
        request = (
            "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext "
            "subjectAltName=IP:127.0.0.1"
        )
        made = ["-keyout", str(key), "-out", str(self.certificate)]
        subprocess.run(["openssl", *request.split(), *made], check=True, capture_output=True)
        files = ["--tls-cert-file", str(self.certificate), "--tls-key-file", str(key)]
        files += ["--tls-ca-cert-file", str(self.certificate), "--tls-auth-clients", "no"]
        self.server = Server(str(system()), "--tls-port", str(self.port), *files)

    @property
    def url(self) -> str:
        return f"rediss://127.0.0.1:{self.port}/0"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    program = system()
    if program is None or shutil.which("openssl") is None:
        pytest.skip(
            "no redis-server or no openssl on the path, and the bundled Redis was built without TLS"
        )
    if b"tls-cert-file" not in Path(program).resolve().read_bytes():
        pytest.skip("the redis-server of this system was built without TLS")
    guarded = Guarded(tmp_path_factory.mktemp("tls"))
    guarded.server.start()
    yield guarded
    guarded.server.stop()


@pytest.fixture
def socket() -> Iterator[Path]:
    server = Server(bundled(), "--unixsocket", "redis.sock")
    server.start()
    yield server.folder / "redis.sock"
    server.stop()


async def a_job_goes_through(url: str) -> None:
    store, twin = RedisStore(url), RedisStore(url)
    await store.open()
    await twin.open()
    while await twin.wait([QUEUE], 0.01):
        pass
    await store.enqueue(jobs(300, payload=b"x" * 1000))  # more than one read of the socket
    assert QUEUE in await twin.wait([QUEUE], 10), "wake-ups arrive on this way too"
    claims = (await twin.claim([QUEUE], 1000, 60_000, "w1")).claims
    assert len(claims) == 300
    done = success(b"\xc0", 0)
    assert all(await twin.settle([Settlement(claim, done) for claim in claims]))
    await store.close()
    await twin.close()


async def test_an_encrypted_connection(guarded: Guarded) -> None:
    await a_job_goes_through(f"{guarded.url}?ssl_ca_certs={guarded.certificate}")
    await a_job_goes_through(f"{guarded.url}?ssl_cert_reqs=none")


async def test_a_server_without_a_trusted_certificate_is_refused(guarded: Guarded) -> None:
    with pytest.raises(StoreError, match=r"certificate.*ssl_ca_certs") as caught:
        await RedisStore(guarded.url).open()
    assert not caught.value.transient


async def test_a_server_without_tls_is_refused_for_a_tls_url(server: Server) -> None:
    with pytest.raises(StoreError, match="cannot reach the server"):
        await RedisStore(f"rediss://127.0.0.1:{server.port}/0").open()


async def test_a_unix_socket(socket: Path) -> None:
    await a_job_goes_through(f"unix://{socket}")
    await a_job_goes_through(f"unix://{socket}?db=1")


async def test_a_missing_unix_socket_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot reach the server") as caught:
        await RedisStore(f"unix://{tmp_path / 'none.sock'}").open()
    assert caught.value.transient
