"""Stores that a test can make unreachable: real servers behind a proxy, and a file that another
program keeps locked."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from tests.stores.nats import servers as nats_servers
from tests.stores.postgres import shared as postgres_servers
from tests.stores.postgres.server import PORT
from tests.stores.proxy import Proxy
from tests.stores.redis import servers as redis_servers

STORES = ("sqlite", "postgres", "redis", "nats")


class Outage(Protocol):
    """A store at `url` that can be made unreachable (`cut`) and reachable again (`open`)."""

    url: str

    def cut(self) -> None: ...

    def open(self) -> None: ...


class LockedFile:
    """Another program holds an exclusive lock on the file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "jobs.db"
        self.url = f"sqlite:///{self._path}"
        self._other: sqlite3.Connection | None = None

    def cut(self) -> None:
        self._other = sqlite3.connect(
            self._path, isolation_level=None, timeout=20, check_same_thread=False
        )
        self._other.execute("begin exclusive")

    def open(self) -> None:
        assert self._other is not None
        self._other.execute("rollback")
        self._other.close()
        self._other = None

    def close(self) -> None:
        if self._other is not None:
            self.open()


class CutServer:
    """A server behind a proxy (`url`), and the same server without it (`direct`)."""

    def __init__(self, target: int | str, url: str, direct: str = "") -> None:
        self._proxy = Proxy(target).start()
        self.url = url.format(port=self._proxy.port)
        self.direct = direct or url.format(port=target)
        self.cut, self.open, self.close = self._proxy.down, self._proxy.up, self._proxy.stop
        self.black_hole = self._proxy.black_hole


@contextmanager
def outage_of(store: str, folder: Path) -> Iterator[Outage]:
    outage = _made(store, folder)
    try:
        yield outage
    finally:
        outage.close()


def _made(store: str, folder: Path) -> LockedFile | CutServer:
    match store:
        case "postgres":
            server = postgres_servers.server("pg18")
            namespace = postgres_servers.fresh_url().rpartition("=")[2]
            url = f"postgresql://postgres@127.0.0.1:{{port}}/postgres?namespace={namespace}"
            return CutServer(
                f"{server.folder}/.s.PGSQL.{PORT}", url, f"{server.url()}&namespace={namespace}"
            )
        case "redis":
            port = redis_servers.shared(redis_servers.bundled()).port
            return CutServer(
                port,
                f"redis://127.0.0.1:{{port}}/0?namespace=outage_{redis_servers.fresh_namespace()}",
            )
        case "nats":
            port = nats_servers.shared().port
            return CutServer(
                port, f"nats://127.0.0.1:{{port}}?namespace=outage_{nats_servers.fresh_namespace()}"
            )
    return LockedFile(folder)


@pytest.fixture(params=STORES)
def outage(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Outage]:
    # a locked file becomes an error soon
    monkeypatch.setattr("mita.stores.sqlite.connection.BUSY_TIMEOUT_S", 0.05)
    with outage_of(request.param, tmp_path) as made:
        yield made
