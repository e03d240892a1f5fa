"""A Litestar app opens and closes a Mita app, and gives it to its handlers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from litestar import Litestar, get, post
from litestar.di import Provide
from litestar.testing import TestClient

from mita import Mita, UsageError
from mita.contrib.litestar import lifespan, provide_mita
from tests.contrib.asking import state
from tests.waiting import wait_until

try:
    from litestar.di import NamedDependency
except ImportError:  # before 2.23
    GivenMita = Mita
else:
    GivenMita = NamedDependency[Mita]  # type: ignore[misc]


@pytest.fixture
def app(tmp_path: Path) -> Mita:
    app = Mita(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    async def greet(name: str) -> str:
        return f"hello {name}"

    return app


@post("/async")
async def ask(queue: GivenMita) -> str:
    return (await queue.tasks["greet"].enqueue("Ada")).id


@post("/sync", sync_to_thread=True)
def ask_sync(queue: GivenMita) -> str:
    return queue.tasks["greet"].enqueue_sync("Ada").id


@post("/wrong")
async def ask_wrongly(queue: GivenMita) -> str:
    with pytest.raises(UsageError, match="`await` the method without _sync"):
        queue.tasks["greet"].enqueue_sync("Ada")
    return "refused"


GIVEN = {"queue": Provide(provide_mita)}


def test_the_app_is_open_while_the_server_runs_and_is_given_to_handlers(app: Mita) -> None:
    handlers = [ask, ask_sync, ask_wrongly]
    web = Litestar(handlers, lifespan=[lifespan(app)], dependencies=GIVEN)
    with TestClient(web) as client:
        assert len(app._pool._opened) == 1
        ids = [client.post("/async").text, client.post("/sync").text]
        assert client.post("/wrong").text == "refused"
        assert [state(app, id) for id in ids] == ["ready", "ready"]
    assert len(app._pool._opened) == 0
    assert "mita" not in web.state


def test_it_stands_beside_other_lifespans(app: Mita) -> None:
    told: list[str] = []

    @asynccontextmanager
    async def own(_: Litestar) -> AsyncIterator[None]:
        told.append((await app.tasks["greet"].enqueue("at the start")).id)
        yield
        told.append((await app.tasks["greet"].enqueue("at the end")).id)

    with TestClient(Litestar([], lifespan=[lifespan(app), own])):
        pass
    assert [state(app, id) for id in told] == ["ready", "ready"]
    app.close_sync()


def test_an_embedded_worker_runs_jobs(app: Mita) -> None:
    web = Litestar([ask], lifespan=[lifespan(app, worker=True)], dependencies=GIVEN)
    with TestClient(web) as client:
        id = client.post("/async").text
        wait_until(lambda: state(app, id) == "succeeded")
    assert app.workers_sync() == []
    app.close_sync()


def test_wrong_uses_say_what_to_do(app: Mita) -> None:
    with pytest.raises(UsageError, match=r"lifespan\(Litestar\): give your Mita app first"):
        lifespan(Litestar([]))  # type: ignore[arg-type]

    @get("/")
    async def look(queue: GivenMita) -> str:
        return repr(queue)

    with TestClient(Litestar([look], dependencies=GIVEN, debug=True)) as client:
        assert "lifespan=[lifespan(app)]" in client.get("/").text
