"""An app on each store, and workers that are stopped even if the test fails."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mita import Mita
from mita.engine.worker import Worker
from tests.stores.nats import servers as nats_servers
from tests.stores.postgres import shared as postgres_servers
from tests.stores.redis import servers as redis_servers
from tests.waiting import until

TIMEOUT_S = 60.0


URLS: dict[str, Callable[[Path], str]] = {
    "memory": lambda _: "memory://",
    "sqlite": lambda folder: f"sqlite:///{folder / 'jobs.db'}",
    "postgres": lambda _: postgres_servers.fresh_url(),
    "redis": lambda _: (
        f"{redis_servers.shared(redis_servers.bundled()).url}?namespace=engine_{redis_servers.fresh_namespace()}"
    ),
    "nats": lambda _: (
        f"{nats_servers.shared().url}?namespace=engine_{nats_servers.fresh_namespace()}"
    ),
}


@pytest.fixture(params=URLS)
async def app(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Mita]:
    app = Mita(URLS[request.param](tmp_path))
    yield app
    await app.close()


@asynccontextmanager
async def working(app: Mita, **settings: Any) -> AsyncIterator[Worker]:
    """Run a worker until the block ends. An error of the worker is raised here."""
    worker = app.worker(**settings)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        if not worker._stopping.is_set():  # a second stop would end it at once
            worker.stop()
        async with asyncio.timeout(TIMEOUT_S):
            await running


async def until_state(app: Mita, id: str, state: str) -> Any:
    """Wait until the job has this state. Returns its record."""
    record = None

    async def reached() -> bool:
        nonlocal record
        record = await app.get(id)
        return record is not None and record.state == state

    await until(reached)
    return record
