"""The engines of the stores: one server for each, with an empty location for every measurement.
The servers are those of the tests; here they are configured to be as durable as the figures say."""

import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol


class NoServer(Exception):
    """No server was found; the text says where it was searched for."""


class Place(Protocol):
    """Where the jobs of one measurement are. `pid` is the server's, if there is a server."""

    url: str
    pid: int | None

    def settle(self) -> None:
        """After loading, do now what the server would soon do by itself."""

    def size(self) -> int | None:
        """Bytes that the store takes."""

    def close(self) -> None: ...


class Engine(Protocol):
    """Opens stores for measurements. `shared`: whether processes can share one."""

    version: str
    settings: str
    shared: bool

    def open(self, folder: Path, /) -> Place: ...

    def close(self) -> None: ...


def _nothing() -> None:
    return


def _folder_size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


class Opened:
    """A location, made of its parts."""

    def __init__(
        self,
        url: str,
        pid: int | None = None,
        settle: Callable[[], None] = _nothing,
        size: Callable[[], int | None] = lambda: None,
        close: Callable[[], None] = _nothing,
    ) -> None:
        self.url, self.pid, self.settle, self.size, self.close = url, pid, settle, size, close


class Memory:
    version = "in the worker's own process"
    settings = "nothing is durable"
    shared = False

    def open(self, _: Path) -> Place:
        return Opened("memory://")

    def close(self) -> None: ...


class Sqlite:
    version = f"SQLite {sqlite3.sqlite_version}"
    settings = "WAL, synchronous=FULL"
    shared = True

    def open(self, folder: Path) -> Place:
        home = folder / "sqlite"
        home.mkdir()
        return Opened(
            f"sqlite:///{home}/jobs.db",
            size=lambda: _folder_size(home),
            close=lambda: shutil.rmtree(home),
        )

    def close(self) -> None: ...


class Redis:
    """A new server for each measurement."""

    shared = True

    def __init__(self, aof: str) -> None:
        from tests.stores.redis import servers

        self._servers = servers
        self._program = servers.system() or servers.bundled()
        if not Path(self._program).exists():
            raise NoServer("neither on the path nor from the test requirements")
        self._options = (
            ("--appendonly", "no") if aof == "no" else ("--appendonly", "yes", "--appendfsync", aof)
        )
        self.version = (
            _first_line([self._program, "--version"]).split(" sha=")[0].replace(" server v=", " ")
        )
        self.settings = "no RDB, no AOF" if aof == "no" else f"no RDB, AOF, appendfsync {aof}"

    def open(self, _: Path) -> Place:
        server = self._servers.Server(self._program, *self._options).start()
        client: Any = server.client()

        def settle() -> None:
            while client.info("persistence")["aof_rewrite_in_progress"]:
                time.sleep(0.05)

        def close() -> None:
            client.close()
            server.kill()
            server.stop()

        return Opened(
            server.url, server.pid, settle, lambda: int(client.info("memory")["used_memory"]), close
        )

    def close(self) -> None: ...


class Postgres:
    """One server, with a new database for each measurement."""

    shared = True
    settings = "fsync on, synchronous_commit on, shared_buffers 128MB, otherwise its defaults"

    def __init__(self) -> None:
        from tests.stores.postgres.server import Server, binaries

        names = binaries()
        if not names:
            raise NoServer("neither in /usr/lib/postgresql nor from the test requirements")
        name = next(iter(names))
        self.version = _first_line([str(names[name] / "postgres"), "--version"])
        self._server = Server(name).start()
        self._number = 0

    def open(self, _: Path) -> Place:
        self._number += 1
        name, server = f"bench{self._number}", self._server

        def settle() -> None:
            server.execute("vacuum analyze", database=name)
            server.execute("checkpoint")

        def size() -> int:
            return int(server.execute(f"select pg_database_size('{name}')")[0][0])

        def close() -> None:
            server.execute(f"drop database {name} with (force)")

        process = server._process
        return Opened(server.fresh(name), process.pid if process else None, settle, size, close)

    def close(self) -> None:
        self._server.stop()


class Nats:
    """A fresh server for each place."""

    shared = True
    settings = "file storage, one replica, sync_interval as the server has it (2 minutes)"

    def __init__(self) -> None:
        from tests.stores.nats import servers

        self._servers = servers
        self.version = _first_line([servers.program(), "--version"])

    def open(self, _: Path) -> Place:
        server = self._servers.Server().start()
        return Opened(
            server.url,
            server.pid,
            size=lambda: _folder_size(server.folder / "js"),
            close=server.remove,
        )

    def close(self) -> None: ...


STORES = ("memory", "sqlite", "redis", "postgres", "nats")


def start(store: str, aof: str) -> Engine:
    """`aof` is Redis's `appendfsync`, or "no"."""
    try:
        return _start(store, aof)
    except Exception as error:
        raise NoServer(f"no server to be had: {error}") from error


def _start(store: str, aof: str) -> Engine:
    match store:
        case "memory":
            return Memory()
        case "sqlite":
            return Sqlite()
        case "redis":
            return Redis(aof)
        case "postgres":
            return Postgres()
    return Nats()


def _first_line(argv: list[str]) -> str:
    said = subprocess.run(argv, capture_output=True, text=True, check=False)
    return (said.stdout or said.stderr).strip().split("\n")[0]
