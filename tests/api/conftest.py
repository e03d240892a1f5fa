"""An app on each store that needs no server, and a worker for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mita import Mita

STORES = ("memory", "sqlite")


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
async def app(url: str) -> AsyncIterator[Mita]:
    async with Mita(url) as app:
        yield app


@asynccontextmanager
async def working(app: Mita, **options: Any) -> AsyncIterator[None]:
    """Run a worker until the block ends."""
    worker = app.worker(**options)
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await running


async def total(app: Mita) -> int:
    """How many jobs are in the store, in any state."""
    return sum(sum(states.values()) for states in (await app.counts()).values())
