"""An app on every store, on a clock that the test moves if the store can use one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mita import Mita
from mita.ports.clock import Clock
from mita.testing.contract.clocks import FakeTicker, RealTicker, Ticker

from .given import Scene
from .stores import KINDS, NO_FAKE_CLOCK, handles

Make = Callable[[Clock | None], Awaitable[Scene]]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def clock(kind: str) -> Ticker:
    return RealTicker() if kind in NO_FAKE_CLOCK else FakeTicker()


@pytest.fixture
async def make(kind: str, tmp_path: Path) -> AsyncIterator[Make]:
    async with AsyncExitStack() as stack:

        async def on(clock: Clock | None) -> Scene:
            made = handles(kind, tmp_path, clock)
            app = Mita(store=made)
            stack.push_async_callback(app.close)
            return Scene(app, await app._pool.store(), made, stack)

        yield on


@pytest.fixture
async def scene(make: Make, clock: Ticker) -> Scene:
    """On the test's clock."""
    return await make(clock if isinstance(clock, FakeTicker) else None)


@pytest.fixture
async def live(make: Make) -> Scene:
    """On the store's own clock."""
    return await make(None)
