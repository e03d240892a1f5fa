"""The four fixtures that the contract asks for, for every store there is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("mita.testing.contract", "tests.contract.walk")

from mita.ports.store import Store  # noqa: E402
from mita.testing.contract.clocks import FakeTicker, RealTicker  # noqa: E402

from .stores import STORES, Handles, StoreEntry  # noqa: E402


@pytest.fixture(params=STORES)
def entry(request: pytest.FixtureRequest) -> StoreEntry:
    return STORES[request.param]


@pytest.fixture
def clock(entry: StoreEntry) -> FakeTicker | RealTicker:
    return entry.new_clock()


@pytest.fixture
def handles(entry: StoreEntry, tmp_path: Path, clock: FakeTicker) -> Handles:
    return entry.handles(tmp_path, clock)


@pytest.fixture
async def store(handles: Handles) -> AsyncIterator[Store]:
    store = handles()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def twin(store: Store, handles: Handles) -> AsyncIterator[Store]:
    twin = handles()
    await twin.open()
    yield twin
    await twin.close()


@pytest.fixture
async def tight(
    entry: StoreEntry, tmp_path: Path, clock: FakeTicker, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Store]:
    store = entry.tight(tmp_path, clock, monkeypatch)
    await store.open()
    yield store
    await store.close()
