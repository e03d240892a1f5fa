"""A worker whose server does not come back ends in time, on every store with a server."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mita import Mita
from tests.engine.outage import CutServer, outage_of
from tests.waiting import wait_until

from .processes import Running


@pytest.fixture(params=["postgres", "redis", "nats"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CutServer]:
    with outage_of(request.param, tmp_path) as made:
        assert isinstance(made, CutServer)
        yield made


@pytest.fixture
def worker(server: CutServer, project: Path) -> Iterator[Running]:
    running = Running("shop:app", "--url", server.url, "--grace", "0.2")
    yield running
    running.close()


@pytest.mark.parametrize("how", ["refuses", "is silent"])
def test_a_worker_whose_server_has_ended_ends_in_time(
    server: CutServer, worker: Running, how: str
) -> None:
    worker.wait_for_line("serves all queues")
    app = Mita(server.url)

    @app.task
    async def nap(seconds: float) -> None: ...

    job = nap.enqueue_sync(600)
    wait_until(lambda: (record := job.get_sync()) is not None and record.state == "running")
    app.close_sync()
    if how == "refuses":
        server.cut()
    else:
        server.black_hole()
    worker.signal(signal.SIGTERM)
    worker.wait_for_line("stopping")
    assert worker.ended() in (0, 1), "it ended by itself"
