"""Real NATS servers on this machine: on free ports, in their own folders, stopped by process id."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from itertools import count
from pathlib import Path

from tests.stores import tied

FRESH = count(1)


def program() -> str:
    """The server of the test requirements, or the one that MITA_NATS_SERVER names."""
    if chosen := os.environ.get("MITA_NATS_SERVER"):
        return chosen
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found, "pip install -r requirements/dev.txt"
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """One server. `more` is written into its configuration as it is."""

    def __init__(
        self, more: str = "", *, jetstream: str = "", name: str = "", port: int | None = None
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mita-nats-"))
        self.port = port or free_port()
        block = (
            f'jetstream {{ store_dir: "{self.folder}/js"\n{jetstream} }}'
            if jetstream != "off"
            else ""
        )
        title = f'server_name: "{name}"' if name else ""
        self._lines = [f'listen: "127.0.0.1:{self.port}"', title, block]
        self._write(more)
        self._process: subprocess.Popen[bytes] | None = None

    def _write(self, more: str) -> None:
        (self.folder / "server.conf").write_text("\n".join([*self._lines, more]))

    def set(self, more: str) -> None:
        """Restart with another configuration."""
        self._write(more)
        self._end(signal.SIGTERM)
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> "Server":
        log = (self.folder / "log").open("ab")
        argv = [program(), "-c", str(self.folder / "server.conf")]
        self._process = tied.start(argv, self.folder, stdout=log, stderr=subprocess.STDOUT)
        log.close()
        atexit.register(self.remove)
        deadline = time.monotonic() + 60
        while not self._answers():
            assert time.monotonic() < deadline, "the server does not come up"
            assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
            time.sleep(0.02)
        return self

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 0.5) as probe:
                return probe.recv(4) == b"INFO"
        except OSError:
            return False

    def kill(self) -> None:
        """Kill the server. Unlike a power failure, this loses nothing of the system's disk
        cache."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(20)
        self._process = None

    def remove(self) -> None:
        self._end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def shared() -> Server:
    """One server for all tests of a process that do not damage it."""
    return Server().start()


@cache
def tight() -> Server:
    """The same with a small max_payload."""
    return Server("max_payload: 32768").start()


def fresh_namespace() -> str:
    return f"t{next(FRESH)}"


class Cluster:
    """Three servers on loopback that keep copies of one stream."""

    def __init__(self) -> None:
        ports, routes = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
        peers = ", ".join(f'"nats://127.0.0.1:{route}"' for route in routes)
        self.servers = [
            Server(
                f'cluster {{ name: mita, listen: "127.0.0.1:{route}", routes: [{peers}] }}',
                name=f"n{at}",
                port=port,
            )
            for at, (port, route) in enumerate(zip(ports, routes, strict=True))
        ]

    def start(self) -> "Cluster":
        for server in self.servers:
            server.start()
        return self

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.servers]

    def remove(self) -> None:
        for server in self.servers:
            server.remove()
