"""A project in a new folder, and `mita` run there: in this process, or as another process."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mita import Mita
from mita.cli import main

SHOP = """
import asyncio
import contextlib
import os
import signal
import time

from mita import Every, Job, Mita, Retry

app = Mita("sqlite:///jobs.db")
other = Mita("sqlite:///other.db")
number = 7


@app.task
async def greet(name: str, times: int = 1) -> str:
    return "hello " * times + name


@app.task(queue="billing", resource="account:{account}", retry=Retry(max_retries=0))
def charge(account: int, cents: int, card: str = "") -> None:
    if cents < 0:
        raise ValueError("cannot charge less than nothing \\x1b[31m")


class SoldOut(Exception):
    pass


@app.task(retry=Retry(max_retries=1, base=0))
async def flaky(job: Job) -> None:
    if job.attempt == 1:
        raise SoldOut("the first time")
    raise KeyError("the second time")


@app.task(timeout=20, expires=1.5, deadline=3600, max_reschedules=7)
async def limited() -> None: ...


@app.task
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"


@app.task
async def gated() -> None:
    while not os.path.exists("gate"):
        await asyncio.sleep(0.01)


@app.task
async def post(text: str | None, a: "str" = "", tags: list[int] = []) -> None: ...


@app.task
async def hang(seconds: float) -> None:
    time.sleep(seconds)


@app.task
def doze(seconds: float) -> None:
    time.sleep(seconds)


@app.task
async def hog(seconds: float) -> None:
    time.sleep(seconds)


@app.task
async def stubborn(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)


@app.task(retry=Retry(max_retries=0))
async def interrupting() -> None:
    raise KeyboardInterrupt


@app.task(retry=Retry(max_retries=0), timeout=20)
def forking() -> int:
    # as a process pool ends its children
    child = os.fork()
    if not child:
        time.sleep(600)
        os._exit(0)
    os.kill(child, signal.SIGTERM)
    return os.waitpid(child, 0)[1]


@app.task
async def onboard(job: Job, user: str) -> str:
    account = await job.step("create account", greet.fn, user)
    await job.sleep(0.01, name="cool")
    answer = await job.wait_for("approval", timeout=3600)
    return f"{account}: {answer}"


@app.task(secret=True)
async def hidden(job: Job) -> None:
    await job.step("look", greet.fn, "s3cr3t")
    await job.wait_for("code")
    await job.wait_for("more")


@app.task
async def elsewhere(seconds: float) -> None:
    await asyncio.to_thread(time.sleep, seconds)
"""


class Said(NamedTuple):
    """The output and the exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with the module `shop` in it."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MITA_URL", "sqlite:///jobs.db")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


Run = Callable[..., Said]


@pytest.fixture
def mita(project: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `mita …` in this process."""

    def run(*arguments: str) -> Said:
        capsys.readouterr()
        code = main(arguments)
        return Said(int(code), *capsys.readouterr())

    return run


@pytest.fixture
def shell(project: Path) -> Run:
    """Run `mita …` as another process, without a terminal."""

    def run(*arguments: str, within: float = 60, **environment: str) -> Said:
        done = subprocess.run(
            [sys.executable, "-m", "mita", *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=within,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def enqueue(mita: Run) -> Callable[..., str]:
    """Enqueue one job. Returns its id."""

    def put(*arguments: str) -> str:
        said = mita("enqueue", *arguments, "--app", "shop:app", "--json")
        assert said.code == 0, said
        return str(said.data["id"])

    return put


@pytest.fixture
def work_off(project: Path) -> Callable[[], None]:
    """Run all jobs that are ready."""

    async def work() -> None:
        from shop import app  # type: ignore[import-not-found]

        assert isinstance(app, Mita)
        async with app, asyncio.timeout(30):
            worker = app.worker(poll=0.05, schedule=False)
            running = asyncio.create_task(worker.run())
            while any(  # noqa: ASYNC110
                queue.ready or queue.running or queue.blocked for queue in await app.queues()
            ):
                await asyncio.sleep(0.01)
            worker.stop()
            await running

    def run() -> None:
        if str(project) not in sys.path:
            sys.path.insert(0, str(project))
        asyncio.run(work())

    return run
