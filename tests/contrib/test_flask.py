"""Handlers run inside the context of a Flask app, and its views enqueue jobs."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from flask import Flask, current_app, g, has_app_context

from mita import Job, Mita, MitaError, Retry, UsageError
from mita.contrib.flask import MitaFlask
from mita.testing import lab
from tests.contrib.asking import state
from tests.waiting import wait_until


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Mita]:
    app = Mita(f"sqlite:///{tmp_path}/jobs.db")
    yield app
    app.close_sync()


@pytest.fixture
def web() -> Flask:
    return Flask("shop")


async def test_handlers_have_the_context_of_the_flask_app(app: Mita, web: Flask) -> None:
    ended: list[BaseException | None] = []
    web.teardown_appcontext(ended.append)
    MitaFlask(app, web)

    @app.task
    def on_a_thread() -> str:
        g.seen = getattr(g, "seen", 0) + 1
        return f"{current_app.name} {g.seen}"

    @app.task
    async def on_the_loop() -> str:
        await asyncio.sleep(0)
        g.seen = getattr(g, "seen", 0) + 1
        await asyncio.sleep(0.01)
        return f"{current_app.name} {g.seen}"

    async with lab(app) as it:
        jobs = [await task.enqueue() for task in (on_a_thread, on_the_loop) for _ in range(3)]
        await it.drain()
        assert [await job.result() for job in jobs] == ["shop 1"] * 6, "a context for each run"
    assert ended == [None] * 6
    assert not has_app_context(), "nothing is left on this thread"


async def test_a_failure_is_seen_by_the_teardown_functions(app: Mita, web: Flask) -> None:
    ended: list[str] = []
    web.teardown_appcontext(lambda error: ended.append(repr(error)))
    MitaFlask(app, web)

    @app.task(retry=Retry(max_retries=0))
    def fail() -> None:
        raise OSError("no paper")

    async with lab(app) as it:
        await fail.enqueue()
        await it.drain(raises=False)
    assert ended == ["OSError('no paper')"]


async def test_a_teardown_that_fails_is_a_failure_of_the_job(app: Mita, web: Flask) -> None:
    def commit(_: BaseException | None) -> None:
        raise OSError("the disk is full")

    web.teardown_appcontext(commit)
    MitaFlask(app, web)

    @app.task(retry=Retry(max_retries=0))
    def plain() -> str:
        return "done"

    async with lab(app) as it:
        job = await plain.enqueue()
        await it.drain(raises=False)
        found = await job.get()
        assert found is not None
        assert "the disk is full" in str(found.error)


async def test_a_factory_that_is_called_again_takes_the_last_flask_app(app: Mita) -> None:
    extension = MitaFlask(app)

    def create_app(name: str) -> Flask:
        web = Flask(name)
        extension.init_app(web)
        return web

    @app.task
    def where() -> str:
        return current_app.name

    create_app("first")
    web = create_app("second")
    assert web.extensions["mita"] is extension
    assert web.extensions["mita"].app is app
    async with lab(app) as it:
        job = await where.enqueue()
        await it.drain()
        assert await job.result() == "second"


async def test_a_worker_without_a_flask_app_does_not_start(app: Mita) -> None:
    MitaFlask(app)
    with pytest.raises(MitaError, match=r"does not start.*call MitaFlask.init_app\(web\)"):
        await app.worker().run()


def test_wrong_arguments_say_what_to_give(app: Mita, web: Flask) -> None:
    with pytest.raises(UsageError, match="give your Mita app first, then the Flask app"):
        MitaFlask(web)  # type: ignore[arg-type]


def test_views_enqueue_on_many_threads(app: Mita, web: Flask) -> None:
    MitaFlask(app, web)

    @app.task
    def plain(n: int) -> int:
        return n

    @web.post("/<int:n>")
    def ask(n: int) -> str:
        return plain.enqueue_sync(n).id

    @web.post("/async/<int:n>")
    def ask_from_async_code(n: int) -> str:
        return asyncio.run(_enqueue(plain, n))

    ids: list[str] = []
    paths = [f"/{n}" for n in range(10)] + ["/async/1"]
    threads = [
        threading.Thread(
            target=lambda path: ids.append(web.test_client().post(path).text), args=[p]
        )
        for p in paths
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [state(app, id) for id in set(ids)] == ["ready"] * len(paths)


async def _enqueue(task: Any, n: int) -> str:
    id: str = (await task.enqueue(n)).id
    return id


def test_the_job_of_a_handler_is_there_beside_the_context(app: Mita, web: Flask) -> None:
    MitaFlask(app, web, worker=True)

    @app.task
    def mine(job: Job) -> str:
        return f"{current_app.name} {job.task}"

    @web.get("/")
    def home() -> str:
        return ""

    job = mine.enqueue_sync()
    assert app.workers_sync() == [], "no worker before the first request"
    web.test_client().get("/")
    web.test_client().get("/")
    assert job.result_sync(timeout=60) == "shop mine"
    assert len(wait_until(app.workers_sync)) == 1
    web.extensions["mita"]._embedded.stop()
    assert app.workers_sync() == []


# ---------------------------------------------------------------- a real server

SHOP = """
import time
from pathlib import Path
from flask import Flask
from mita import Mita
from mita.contrib.flask import MitaFlask

app = Mita("sqlite:///jobs.db")
web = Flask(__name__)
MitaFlask(app, web, worker=True)

@app.task
def slow(name: str) -> str:
    Path("began").touch()
    time.sleep(0.5)
    return f"hello {name}"

@web.post("/<name>")
def ask(name: str) -> str:
    return slow.enqueue_sync(name).id
"""


@contextmanager
def flask_run(folder: Path, *options: str) -> Iterator[str]:
    """`flask run` in this folder. Gives its address, and ends it with Ctrl-C."""
    (folder / "shop.py").write_text(SHOP)
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "flask", "--app", "shop:web", *options, "run", "--port", "0"],
            cwd=folder,
            stderr=subprocess.STDOUT,
            stdout=log,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        try:
            yield wait_until(lambda: _address(folder / "log"))
        finally:
            os.killpg(server.pid, signal.SIGINT)
            server.wait(60)
    assert "Traceback" not in (folder / "log").read_text()


@pytest.mark.skipif("MITA_SOAK" not in os.environ, reason="part of make soak")
def test_the_embedded_worker_finishes_its_job_when_flask_run_ends(tmp_path: Path) -> None:
    app = Mita(f"sqlite:///{tmp_path}/jobs.db")
    with flask_run(tmp_path) as address:
        id = wait_until(lambda: _posted(f"{address}/Ada"))
        wait_until((tmp_path / "began").exists)
    assert state(app, id) == "succeeded"
    assert app.workers_sync() == [], "it has left"
    app.close_sync()


@pytest.mark.skipif(
    not os.environ.get("MITA_SOAK"),
    reason="Flask's reloader does not always end on a busy machine: make soak runs it",
)
def test_the_reloader_never_has_two_workers(tmp_path: Path) -> None:
    app = Mita(f"sqlite:///{tmp_path}/jobs.db")
    with flask_run(tmp_path, "--debug") as address:
        first = wait_until(lambda: _posted(f"{address}/Ada"))
        wait_until((tmp_path / "began").exists)
        [before] = wait_until(app.workers_sync)
        (tmp_path / "shop.py").write_text(SHOP.replace("hello", "goodbye"))
        wait_until(lambda: before.id not in [view.id for view in app.workers_sync()])
        assert state(app, first) == "succeeded", "it had its grace time"
        second = wait_until(lambda: _posted(f"{address}/Bo"))
        wait_until(lambda: state(app, second) == "succeeded")
        [after] = wait_until(app.workers_sync)
        assert app.result_sync(second) == "goodbye Bo"
        assert after.pid != before.pid
    app.close_sync()


def _address(log: Path) -> str | None:
    found = [line for line in log.read_text().splitlines() if "Running on " in line]
    return found[0].partition("Running on ")[2].split()[0] if found else None


def _posted(url: str) -> str | None:
    try:
        answer = httpx.post(url)
    except httpx.TransportError:
        return None
    assert answer.status_code == 200, answer.text
    return answer.text
