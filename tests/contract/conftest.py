"""The four fixtures that the contract asks for, for every store there is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("mita.testing.contract", "tests.contract.walk")

from mita.ports.store import Store  # noqa: E402
from mita.testing.contract.clocks import FakeTicker  # noqa: E402

from .stores import STORES, Handles  # noqa: E402
from .stores import tight as tight_store  # noqa: E402


@pytest.fixture
def clock() -> FakeTicker:
    return FakeTicker()


@pytest.fixture(params=STORES)
def handles(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeTicker) -> Handles:
    return STORES[request.param](tmp_path, clock)


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


@pytest.fixture(params=STORES)
async def tight(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    clock: FakeTicker,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Store]:
    store = tight_store(request.param, tmp_path, clock, monkeypatch)
    await store.open()
    yield store
    await store.close()
