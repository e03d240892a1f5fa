"""An app on every store there is, under a clock that stands still where the store obeys one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from mita import Mita
from mita.ports.clock import Clock
from mita.ports.store import Store
from mita.testing.contract.clocks import FakeTicker, RealTicker, Ticker

from .given import Scene
from .stores import KINDS, NO_FAKE_CLOCK, Handles, handles


class Rented:
    """A place whose stores are the test's own."""

    def __init__(self, made: Handles, stack: AsyncExitStack) -> None:
        self._made, self._stack = made, stack
        self._mine: Store | None = None
        self.url = self.source = Mita("memory://").url

    async def new(self, silence: float = 0.0) -> Store:
        store = self._made()
        await store.open()
        return store

    async def store(self) -> Store:
        if self._mine is None:
            self._mine = await self.new()
            self._stack.push_async_callback(self._mine.close)
        return self._mine

    async def close(self) -> None: ...


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
            app: Any = Mita("memory://")
            app._pool = Rented(made, stack)
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
