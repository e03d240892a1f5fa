"""A Starlette app opens and closes a Mita app, and can run a worker beside its requests."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from mita import Mita, UsageError
from mita.contrib import embedded
from mita.contrib.starlette import get_mita, lifespan
from tests.contrib.asking import state
from tests.waiting import until, wait_until


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Mita]:
    app = Mita(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    @app.task
    def shout(name: str) -> str:
        return f"HELLO {name}"

    yield app
    app.close_sync()


async def ask_greet(request: Request) -> PlainTextResponse:
    app = get_mita(request)
    job = await app.tasks["greet"].enqueue(request.query_params["name"])
    return PlainTextResponse(job.id)


def opened(app: Mita) -> int:
    """How many event loops have a store of this app open."""
    return len(app._pool._opened)


def test_the_store_is_open_while_the_web_server_runs(app: Mita) -> None:
    web = Starlette(routes=[Route("/greet", ask_greet)], lifespan=lifespan(app))
    assert opened(app) == 0
    with TestClient(web) as client:
        assert opened(app) == 1, "before the first request"
        id = client.get("/greet?name=Ada").text
        assert app.get_sync(id) is not None
    assert opened(app) == 0
    with TestClient(web) as client:
        assert client.get("/greet?name=Bo").status_code == 200, "it can be opened again"


def test_the_web_server_does_not_start_if_the_store_cannot_be_opened() -> None:
    web = Starlette(lifespan=lifespan(Mita("sqlite:////nowhere/at/all/jobs.db")))
    with pytest.raises(UsageError, match="folder /nowhere/at/all does not exist"), TestClient(web):
        pass


def test_a_lifespan_of_the_user_is_inside_and_keeps_its_state(app: Mita) -> None:
    told: list[Any] = []

    @asynccontextmanager
    async def own(web: Starlette) -> AsyncIterator[dict[str, str]]:
        told.append(web)
        await app.tasks["greet"].enqueue("at the start")
        yield {"colour": "red"}
        await app.tasks["greet"].enqueue("at the end")
        told.append("left")

    async def colour(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"{request.state.colour} {request.state.mita is app}")

    web = Starlette(routes=[Route("/", colour)], lifespan=lifespan(app, own))
    with TestClient(web) as client:
        assert client.get("/").text == "red True"
    assert told == [web, "left"]
    assert app.counts_sync()["default"]["ready"] == 2


def test_the_store_is_closed_if_the_lifespan_of_the_user_fails(app: Mita) -> None:
    @asynccontextmanager
    async def own(web: Starlette) -> AsyncIterator[None]:
        if web.routes == []:
            raise OSError("no route to the database")
        yield

    with (
        pytest.raises(OSError, match="no route"),
        TestClient(Starlette(lifespan=lifespan(app, own))),
    ):
        pass
    assert opened(app) == 0


def test_wrong_arguments_say_what_to_give(app: Mita) -> None:
    with pytest.raises(UsageError, match=r"lifespan\(Starlette\): give your Mita app first"):
        lifespan(Starlette())  # type: ignore[arg-type]

    async def bare(_: Starlette) -> AsyncIterator[None]:
        yield

    web = Starlette(lifespan=lifespan(app, bare))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="put @asynccontextmanager"), TestClient(web):
        pass
    web = Starlette(lifespan=lifespan(app, worker=lambda: app.worker(concurrency=0)))
    with pytest.raises(UsageError, match="concurrency"), TestClient(web):
        pass


def test_a_request_without_the_lifespan_says_what_to_do(app: Mita) -> None:
    web = Starlette(routes=[Route("/greet", ask_greet)], lifespan=lifespan(app))
    with pytest.raises(UsageError, match="with TestClient"):
        TestClient(web).get("/greet?name=Ada")


def test_a_mounted_app_finds_the_mita_app_in_its_scope(app: Mita) -> None:
    """The place for a dashboard: any ASGI app."""
    seen: list[Any] = []

    async def dashboard(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["state"]["mita"])
        await PlainTextResponse("jobs")(scope, receive, send)

    web = Starlette(routes=[Mount("/mita", app=dashboard)], lifespan=lifespan(app))
    with TestClient(web) as client:
        assert client.get("/mita/").text == "jobs"
    assert seen == [app]


# ---------------------------------------------------------------- sync and async


def test_a_sync_method_on_the_event_loop_of_the_server_is_refused(app: Mita) -> None:
    greet = app.tasks["greet"]

    async def wrong(_: Request) -> PlainTextResponse:
        for call in (lambda: greet.enqueue_sync("Ada"), app.counts_sync):
            with pytest.raises(UsageError, match=r"`await` the method without _sync.*plain `def`"):
                call()
        return PlainTextResponse("refused")

    def right(_: Request) -> PlainTextResponse:  # Starlette runs it on a thread
        return PlainTextResponse(greet.enqueue_sync("Ada").id)

    routes = [Route("/wrong", wrong), Route("/right", right)]
    with TestClient(Starlette(routes=routes, lifespan=lifespan(app))) as client:
        assert client.get("/wrong").text == "refused"
        assert app.get_sync(client.get("/right").text) is not None


async def test_other_event_loops_may_still_call_sync_methods(app: Mita) -> None:
    """As at the prompt of `python -m asyncio`."""
    assert app.tasks["greet"].enqueue_sync("Ada").id


def test_sync_endpoints_may_enqueue_all_at_once(app: Mita) -> None:
    greet = app.tasks["greet"]
    asked = 20

    def right(_: Request) -> PlainTextResponse:
        return PlainTextResponse(greet.enqueue_sync("Ada").id)

    with TestClient(Starlette(routes=[Route("/", right)], lifespan=lifespan(app))) as client:
        assert client.portal is not None

        async def many() -> list[str]:
            transport = httpx.ASGITransport(app=client.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://web") as asker:
                answers = await asyncio.gather(*(asker.get("/") for _ in range(asked)))
            return [answer.text for answer in answers]

        ids = client.portal.call(many)
    assert len(set(ids)) == asked
    assert app.counts_sync()["default"]["ready"] == asked


def test_a_background_task_can_enqueue_after_the_response(app: Mita) -> None:
    greet = app.tasks["greet"]

    async def later(_: Request) -> JSONResponse:
        return JSONResponse({}, background=BackgroundTask(greet.enqueue, "Ada"))

    with TestClient(Starlette(routes=[Route("/", later)], lifespan=lifespan(app))) as client:
        client.get("/")
        wait_until(lambda: app.counts_sync()["default"]["ready"] == 1)


# ---------------------------------------------------------------- the embedded worker


def test_an_embedded_worker_runs_jobs_and_stops_with_the_server(
    app: Mita, caplog: pytest.LogCaptureFixture
) -> None:
    web = Starlette(routes=[Route("/greet", ask_greet)], lifespan=lifespan(app, worker=True))
    with TestClient(web) as client:
        id = client.get("/greet?name=Ada").text
        loud = app.tasks["shout"].enqueue_sync("Bo")
        wait_until(lambda: state(app, id) == "succeeded")
        assert loud.result_sync(timeout=60) == "HELLO Bo"
        [view] = wait_until(app.workers_sync)
        assert view.name.startswith("web-")
    assert app.workers_sync() == [], "it has left"
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


def test_a_running_job_gets_the_grace_time(app: Mita) -> None:
    began: list[str] = []

    @app.task
    async def slow() -> str:
        began.append("slow")
        await asyncio.sleep(0.3)
        return "done"

    with TestClient(Starlette(lifespan=lifespan(app, worker=True))):
        job = slow.enqueue_sync()
        wait_until(lambda: began)
    assert state(app, job.id) == "succeeded"
    assert began == ["slow"]


def test_the_worker_of_the_user_is_started_after_the_own_lifespan_and_ends_before_it(
    app: Mita,
) -> None:
    open_pools: list[str] = []
    seen: list[list[str]] = []

    @asynccontextmanager
    async def own(_: Starlette) -> AsyncIterator[None]:
        open_pools.append("pool")
        yield
        assert app.tasks["look"] is not None
        open_pools.clear()

    @app.task
    async def look() -> None:
        await asyncio.sleep(0.1)
        seen.append(list(open_pools))

    job = look.enqueue_sync()
    web = Starlette(lifespan=lifespan(app, own, worker=lambda: app.worker(concurrency=2, grace=30)))
    with TestClient(web):
        wait_until(lambda: state(app, job.id) in ("running", "succeeded"))
        [view] = wait_until(app.workers_sync)
        assert view.slots == 2
    assert seen == [["pool"]]


async def test_one_process_of_a_machine_runs_the_embedded_worker(
    app: Mita, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two lifespans stand for two processes: each has a lock holder of its own."""
    monkeypatch.setattr(embedded, "RENEW_S", 0.02)
    web = Starlette()
    first, second = (lifespan(app, worker=lambda: app.worker(name="a"))(web) for _ in range(2))
    await first.__aenter__()
    await until(app.workers)
    await second.__aenter__()
    await until(lambda: "another process of this machine runs" in caplog.text)
    assert len(await app.workers()) == 1
    [before] = await app.workers()
    await first.__aexit__(None, None, None)
    after = await until(app.workers)
    assert [view.id for view in after] != [before.id], "now the other one runs"
    assert caplog.text.count("another process") == 1
    await second.__aexit__(None, None, None)
    await app.close()


async def test_a_process_that_lost_the_lock_stops_its_worker(
    app: Mita, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a long stop in a debugger."""
    monkeypatch.setattr(embedded, "RENEW_S", 0.02)
    monkeypatch.setattr(embedded, "incarnation", lambda _: "this process")
    async with lifespan(app, worker=True)(Starlette()):
        await until(app.workers)
        store = await app.open_store()
        name = f"embedded worker of {socket.gethostname()}"

        async def taken() -> bool:
            await store.unlock(name, "this process")
            return await store.lock(name, "another", 60_000)

        await until(taken)
        await until(lambda: "this one stops its own" in caplog.text)
        await until(_none(app))
        await store.unlock(name, "another")
        await until(app.workers)
        await store.close()


def _none(app: Mita) -> Any:
    async def none() -> bool:
        return await app.workers() == []

    return none


def test_a_worker_that_ends_by_itself_is_not_started_again_for_ever(app: Mita) -> None:
    made: list[int] = []

    def make() -> Any:
        made.append(1)
        return app.worker(until_empty=True)

    job = app.tasks["greet"].enqueue_sync("Ada")
    with TestClient(Starlette(lifespan=lifespan(app, worker=make))):
        assert job.result_sync(timeout=60) == "hello Ada"
        wait_until(lambda: app.workers_sync() == [])
    assert len(made) == 2, "once to check its options, once to run"
