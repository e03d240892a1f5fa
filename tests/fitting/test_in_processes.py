"""Dependencies of tasks with `executor="process"`, and of a real `mita worker` that is stopped."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated, Any

import pytest

from mita import Depends, Job, JobFailed, Mita, UsageError
from tests.engine.conftest import until_state, working
from tests.waiting import until, wait_until

from . import crunching
from .conftest import untyped


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the providers have done."""
    file = tmp_path / "log.txt"
    file.touch()
    monkeypatch.setenv("MITA_TEST_LOG", str(file))
    return file


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


@pytest.fixture
async def app(tmp_path: Path, written: Path) -> AsyncIterator[Mita]:
    async with crunching.app.using(f"sqlite:///{tmp_path / 'jobs.db'}") as app:
        yield app


async def test_a_handler_process_has_its_own_values_and_cleans_them_up(
    app: Mita, written: Path
) -> None:
    async with working(app, handler_processes=1):
        jobs = [await untyped(crunching.crunch).enqueue(number) for number in (1, 2)]
        [one, two] = [await job.result(30) for job in jobs]
        pid = one[0]
        assert pid != os.getpid()
        assert one == [pid, f"session of {pid}", pid, 1]
        assert two == [pid, f"session of {pid}", pid, 2]
        with pytest.raises(JobFailed, match="less than nothing"):
            await (await untyped(crunching.crunch).enqueue(-1)).result(30)
    said = lines(written)
    assert said.count("share") == 1  # one for all runs of the process
    assert said.count("begin crunch") == said.count("end") == said.count("around") == 3
    assert said.count("load") == said.count("unload") == 2  # the worker has its own


async def test_a_cancelled_handler_in_a_process_is_cleaned_up(app: Mita, written: Path) -> None:
    async with working(app, handler_processes=1):
        job = await untyped(crunching.watch).enqueue()
        await until(lambda: "watching" in written.read_text())
        await app.cancel(job.id)
        await until_state(app, job.id, "cancelled")
    assert lines(written).count("end") == 1


async def test_a_failing_provider_in_a_process_is_named(app: Mita) -> None:
    async with working(app, handler_processes=1):
        with pytest.raises(JobFailed, match=r"no model \(raised by provider .*crunching.broken"):
            await (await untyped(crunching.fail).enqueue()).result(30)


async def on_loop() -> str:
    return ""


def needs_loop(x: Annotated[str, Depends(on_loop)]) -> str:
    return x


@pytest.mark.parametrize("provider", [on_loop, needs_loop])
def test_an_async_provider_is_refused_in_a_process(provider: Callable[..., Any]) -> None:
    app = Mita("memory://")

    @app.task(executor="process")
    def use(x: Annotated[str, Depends(provider)]) -> None: ...

    with pytest.raises(UsageError, match=r"'use' runs in a process .* provider .*on_loop is async"):
        app.worker(target="nowhere:app")


def test_async_middleware_is_refused_in_a_process() -> None:
    app = Mita("memory://")

    @app.task(executor="process")
    def use() -> None: ...

    @app.middleware
    async def around(job: Job) -> AsyncIterator[None]:
        yield

    with pytest.raises(UsageError, match=r"'use' runs in a process .*around is async"):
        app.worker(target="nowhere:app")


def test_an_async_lifespan_is_refused_in_a_process_that_needs_it() -> None:
    app = Mita("memory://")

    @app.lifespan
    async def pool() -> AsyncIterator[None]:
        yield

    @app.task(executor="process")
    def use() -> None: ...

    app.worker(target="nowhere:app")

    @app.task(executor="process")
    def use_it(x: Annotated[None, Depends(pool)]) -> None: ...

    with pytest.raises(UsageError, match=r"'use_it' runs in a process .*pool is async"):
        app.worker(target="nowhere:app")


PROGRAM = """
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Annotated
import asyncio, time
from mita import Depends, Mita

app = Mita({url!r})

def log(text: str) -> None:
    with Path({log!r}).open("a") as file:
        file.write(text + "\\n")

@app.lifespan
async def pool() -> AsyncIterator[str]:
    log("open")
    yield "pool"
    log("close")

async def session(pool: Annotated[str, Depends(pool)]) -> AsyncIterator[str]:
    log("begin")
    try:
        yield pool
    finally:
        await asyncio.sleep(0)
        log("end")

@app.task
async def hang(x: Annotated[str, Depends(session)]) -> None:
    await asyncio.Event().wait()

@app.task
def quick(x: Annotated[str, Depends(session)]) -> str:
    return x
"""


def test_a_worker_that_is_told_to_stop_cleans_up_everything(tmp_path: Path, written: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    (tmp_path / "stopped.py").write_text(PROGRAM.format(url=url, log=str(written)))
    app = Mita(url)

    @app.task
    async def hang() -> None: ...

    hang.enqueue_sync()
    command = [sys.executable, "-m", "mita", "worker", "stopped:app", "--grace", "0.1"]
    worker = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: "begin" in written.read_text())
        worker.send_signal(signal.SIGTERM)
        worker.wait(30)
    finally:
        worker.kill()
        app.close_sync()
    assert written.read_text().split() == ["open", "begin", "end", "close"]


def test_a_worker_whose_lifespan_fails_ends_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "from mita import Mita\n"
        "app = Mita('memory://')\n"
        "@app.task\n"
        "def work(): ...\n"
        "@app.lifespan\n"
        "def pool():\n"
        "    raise OSError('no route')\n"
        "    yield\n"
    )
    command = [sys.executable, "-m", "mita", "worker", "broken:app"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "the lifespan broken.pool failed, so the worker does not start: OSError" in ended.stderr
