"""FastAPI: dependencies that give the app or a task, when a request's transaction ends, and
Pydantic models without extra code."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

import fastapi
import pytest
from fastapi import BackgroundTasks, Depends, FastAPI, WebSocket
from fastapi.testclient import TestClient
from pydantic import BaseModel

from mita import Mita, Task, UsageError
from mita.contrib.fastapi import MitaApp, get_mita, get_task, lifespan
from tests.contrib.asking import state
from tests.waiting import wait_until

VERSION = tuple(int(part) for part in fastapi.__version__.split(".")[:2])


class Order(BaseModel):
    number: int
    lines: list[str] = []


class Invoice(BaseModel):
    order: Order
    cents: int


Bill = Annotated[Task[..., Any], Depends(get_task("bill"))]


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Mita]:
    app = Mita(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    async def bill(order: Order) -> Invoice:
        return Invoice(order=order, cents=100 * len(order.lines))

    yield app
    app.close_sync()


def test_an_endpoint_gets_the_app_and_a_task_by_its_name(app: Mita) -> None:
    web = FastAPI(lifespan=lifespan(app))

    @web.post("/orders")
    async def order(
        order: Order, bill: Annotated[Task[..., Any], Depends(get_task("bill"))]
    ) -> str:
        return (await bill.enqueue(order)).id

    @web.get("/jobs/{id}")
    async def look(id: str, queue: MitaApp) -> bool:
        return await queue.get(id) is not None

    @web.get("/sync/{id}")
    def look_sync(id: str, queue: MitaApp) -> str:
        return state(queue, id)

    @web.get("/wrong")
    async def wrong(task: Annotated[Task[..., Any], Depends(get_task("bil"))]) -> str:
        return task.name

    @web.websocket("/live")
    async def live(socket: WebSocket, queue: MitaApp) -> None:
        await socket.accept()
        await socket.send_text(repr(queue))
        await socket.close()

    with TestClient(web) as client:
        id = client.post("/orders", json={"number": 7}).json()
        assert client.get(f"/jobs/{id}").json() is True
        assert client.get(f"/sync/{id}").json() == "ready"
        with client.websocket_connect("/live") as socket:
            assert socket.receive_text() == repr(app)
        with pytest.raises(UsageError, match=r"no task 'bil'.*known: bill"):
            client.get("/wrong")
        assert "mita" not in str(client.get("/openapi.json").json()).lower(), "it is no parameter"


def test_the_app_can_be_replaced_in_a_test(app: Mita) -> None:
    web = FastAPI()

    @web.get("/")
    async def shown(queue: MitaApp) -> str:
        return repr(queue)

    web.dependency_overrides[get_mita] = lambda: app
    assert TestClient(web).get("/").json() == repr(app)


def test_pydantic_models_are_arguments_and_results(app: Mita) -> None:
    web = FastAPI(lifespan=lifespan(app, worker=True))
    bill: Any = app.tasks["bill"]

    @web.post("/orders")
    async def order(order: Order) -> Invoice:
        invoice: Invoice = await (await bill.enqueue(order)).result(timeout=60)
        assert isinstance(invoice, Invoice)
        return invoice

    with TestClient(web) as client:
        answer = client.post("/orders", json={"number": 7, "lines": ["tea", "cake"]})
    assert answer.json() == {"order": {"number": 7, "lines": ["tea", "cake"]}, "cents": 200}


def test_background_tasks_can_enqueue(app: Mita) -> None:
    web = FastAPI(lifespan=lifespan(app))
    bill: Any = app.tasks["bill"]

    @web.post("/")
    async def later(background: BackgroundTasks) -> None:
        background.add_task(bill.enqueue, Order(number=1))
        background.add_task(bill.enqueue_sync, Order(number=2))  # a sync function: on a thread

    with TestClient(web) as client:
        client.post("/")
        wait_until(lambda: app.counts_sync()["default"]["ready"] == 2)


def _ends_first(app: Mita, dependency: Any) -> list[str]:
    """In which order these happen: the code after the `yield` of a dependency, the last byte of the
    response, a background task."""
    told: list[str] = []
    web = FastAPI(lifespan=lifespan(app))

    async def session() -> AsyncIterator[None]:
        yield
        told.append("commit")

    @web.post("/")
    async def ask(background: BackgroundTasks, _: Annotated[None, dependency(session)]) -> None:
        background.add_task(told.append, "background")

    async def watched(scope: Any, receive: Any, send: Any) -> None:
        async def sending(message: Any) -> None:
            await send(message)
            if message["type"] == "http.response.body":
                told.append("response")

        await web(scope, receive, sending)

    with TestClient(watched) as client:
        client.post("/")
    return told


def test_when_a_dependency_commits_depends_on_fastapi(app: Mita) -> None:
    """What the guide says about it. From 0.118 on it commits after the response, so that a client
    may ask for a job that is not there yet; `scope="function"` (0.121) commits before."""
    at_the_end = _ends_first(app, Depends)
    if VERSION >= (0, 118):
        assert at_the_end == ["response", "background", "commit"]
    else:
        assert at_the_end == ["commit", "response", "background"]
    if VERSION >= (0, 121):
        early = _ends_first(app, lambda session: Depends(session, scope="function"))
        assert early == ["commit", "response", "background"]


def test_routers_and_lifespans_of_the_user_compose(app: Mita) -> None:
    told: list[str] = []

    async def own(_: FastAPI) -> AsyncIterator[dict[str, int]]:
        told.append("in")
        yield {"number": 7}
        told.append("out")

    from contextlib import asynccontextmanager

    web = FastAPI(lifespan=lifespan(app, asynccontextmanager(own)))

    @web.get("/")
    async def number(request: fastapi.Request, queue: MitaApp) -> int:
        assert queue is app
        found: int = request.state.number
        return found

    with TestClient(web) as client:
        assert client.get("/").json() == 7
    assert told == ["in", "out"]
