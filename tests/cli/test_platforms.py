"""Systems that this test cannot run on: names that Windows does not have are taken away, and a
worker must do without them."""

import subprocess
import sys
from pathlib import Path

import pytest

# Names that Python has on Linux and macOS, and not on Windows. Modules of the standard library that
# need them are imported before.
WITHOUT = """
import asyncio, concurrent.futures, getpass, logging.handlers, multiprocessing.process, random
import selectors, signal, socket, sqlite3, subprocess, sys, tempfile, threading, pkgutil, ctypes
import msgspec, os, os.path, email, http.server, importlib.metadata, shutil, zoneinfo
import wsgiref.simple_server

for module, names in {
    signal: "SIGHUP SIGKILL SIGUSR1 SIGUSR2 SIGQUIT SIGCHLD SIGPIPE SIGALRM pthread_sigmask "
    "sigwait pthread_kill SIG_BLOCK SIG_SETMASK setitimer alarm",
    os: "fork forkpty register_at_fork getuid geteuid getgid getpgid setsid killpg getppid "
    "sched_getaffinity sched_setaffinity set_blocking uname fchmod chown mkfifo wait waitid "
    "O_CLOEXEC O_NONBLOCK posix_spawn",
    socket: "AF_UNIX SO_REUSEPORT send_fds recv_fds",
}.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
for name in ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "uvloop", "readline"):
    sys.modules[name] = None


def refuse(*_):
    raise NotImplementedError


def pair(*_):  # as Python makes it on Windows
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        return one, server.accept()[0]


socket.socketpair = pair
for loop in (asyncio.AbstractEventLoop, asyncio.BaseEventLoop, asyncio.SelectorEventLoop):
    loop.add_signal_handler = loop.remove_signal_handler = refuse
    loop.create_unix_connection = loop.create_unix_server = refuse
"""

JOBS = """
from mita import Every, Mita
app = Mita("sqlite:///jobs.db")

@app.task
async def add(a: int, b: int) -> int:
    return a + b

@app.task
def slow(n: int) -> int:
    return n
"""


def run(folder: Path, program: str) -> "subprocess.CompletedProcess[str]":
    (folder / "jobs.py").write_text(JOBS)
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=100,
        check=False,
    )


def test_everything_can_be_imported(tmp_path: Path) -> None:
    """Stores and integrations need packages that are installed here; each of their modules too."""
    program = """
import importlib, mita
left_out = ("mita.handler_main", "mita.__main__", "mita.contrib", "mita.testing")
for module in pkgutil.walk_packages(mita.__path__, "mita."):
    if not module.name.startswith(left_out):
        importlib.import_module(module.name)
print(len([name for name in sys.modules if name.startswith("mita.")]))
"""
    ran = run(tmp_path, program)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 300


def test_a_worker_runs_jobs_until_none_is_left(tmp_path: Path) -> None:
    program = """
from mita.cli import main
for n in range(20):
    assert main(["enqueue", "add", str(n), "1", "--app", "jobs:app"]) == 0
    assert main(["enqueue", "slow", str(n), "--app", "jobs:app"]) == 0
assert main(["worker", "jobs:app", "--until-empty", "--health", "127.0.0.1:0"]) == 0
import jobs
counts = jobs.app.counts_sync()["default"]
assert counts["succeeded"] == 40, counts
jobs.app.close_sync()
later = ["--after", "1h", "--id", "later"]
assert main(["enqueue", "add", "1", "1", *later, "--app", "jobs:app"]) == 0
assert main(["cancel", "later", "--app", "jobs:app"]) == 0
assert main(["check", "--app", "jobs:app"]) == 0
assert main(["doctor", "--app", "jobs:app"]) == 0
"""
    ran = run(tmp_path, program)
    assert ran.returncode == 0, ran.stderr
    assert "serves all queues" in ran.stderr


@pytest.mark.parametrize("command", ["worker", "scheduler", "program"])
def test_ctrl_c_stops_it(tmp_path: Path, command: str) -> None:
    program = f"""
import time
from mita.cli import main
import jobs

def interrupt():
    while not (jobs.app.workers_sync() if {command!r} != "scheduler" else started.is_set()):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

started = threading.Event()
if {command!r} == "scheduler":
    from mita.engine.scheduler import Scheduler
    inner = Scheduler.run
    async def begun(self):
        started.set()
        await inner(self)
    Scheduler.run = begun
threading.Thread(target=interrupt, daemon=True).start()
if {command!r} == "program":
    jobs.app.worker().run_sync()
    code = 0
else:
    code = main([{command!r}, "jobs:app"])
print("ended with", code)
"""
    ran = run(tmp_path, program)
    assert ran.returncode == 0, ran.stderr
    assert "ended with 0" in ran.stdout, ran.stderr


def test_what_needs_another_system_says_so(tmp_path: Path) -> None:
    program = """
from mita import Mita, UsageError
from mita.cli import main
assert main(["worker", "jobs:app", "--processes", "2"]) == 2
assert main(["worker", "jobs:app", "--reload"]) == 2
app = Mita("memory://")
@app.task(executor="process")
def crunch() -> None: ...
try:
    app.worker()
except UsageError as error:
    print(error)
"""
    ran = run(tmp_path, program)
    assert ran.returncode == 0, ran.stderr
    assert "--processes needs Linux or macOS" in ran.stderr
    assert "--reload needs Linux or macOS" in ran.stderr
    assert "executor='process' need Linux or macOS" in ran.stdout
