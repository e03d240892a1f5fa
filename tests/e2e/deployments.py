"""A store that only one test uses and may break: its server can be killed, and workers reach it
through a proxy."""

from pathlib import Path
from typing import Protocol

from tests.stores.nats import servers as nats_servers
from tests.stores.postgres import server as postgres_servers
from tests.stores.proxy import Proxy
from tests.stores.redis import servers as redis_servers


class Server(Protocol):
    """What the three kinds of test servers have in common."""

    def start(self) -> object: ...

    def kill(self) -> None: ...


# PostgreSQL commits a claim without a resource key with `synchronous_commit = off`. Its log writer
# then takes up to three times `wal_writer_delay`, 0.6 s, or longer if it has to wait for a core.
POSTGRES_UNSYNCED_CLAIMS_S = 2.0


class Deployment:
    """`url` goes straight to the server, `url_of_workers` through the proxy. `unsynced_claims_s`:
    for how long the server may forget a claim if it is killed; everything else is on disk before it
    is acknowledged."""

    def __init__(self, server: Server, port: int, url: str, unsynced_claims_s: float = 0.0) -> None:
        self.unsynced_claims_s = unsynced_claims_s
        self._server = server
        server.start()
        self.proxy = Proxy(port).start()
        self.url = url.format(port=port)
        self.url_of_workers = url.format(port=self.proxy.port)

    def kill_server(self) -> None:
        self._server.kill()

    def start_server(self) -> None:
        self._server.start()

    def close(self) -> None:
        self.proxy.stop()
        self._server.kill()


class FileDeployment:
    """An embedded file has no server and no network: it has neither a proxy nor anything to
    kill."""

    proxy = None
    unsynced_claims_s = 0.0

    def __init__(self, folder: Path) -> None:
        self.url = self.url_of_workers = f"sqlite:///{folder}/jobs.db"

    def close(self) -> None:
        pass


def deploy(store: str, folder: Path) -> Deployment | FileDeployment:
    match store:
        case "postgres":
            port = nats_servers.free_port()
            postgres = postgres_servers.Server("pg18", listen_addresses="127.0.0.1", port=str(port))
            url = "postgresql://postgres@127.0.0.1:{port}/postgres"
            return Deployment(postgres, port, url, POSTGRES_UNSYNCED_CLAIMS_S)
        case "redis":
            redis = redis_servers.Server(
                redis_servers.bundled(), "--appendonly", "yes", "--appendfsync", "always"
            )
            return Deployment(redis, redis.port, "redis://127.0.0.1:{port}/0")
        case "nats":
            nats = nats_servers.Server()
            return Deployment(nats, nats.port, "nats://127.0.0.1:{port}")
        case _:
            return FileDeployment(folder)
