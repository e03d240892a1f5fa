"""The four fixtures of the contract, for the example store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("mita.testing.contract")

from mita.ports.store import Store  # noqa: E402
from mita.testing.contract.clocks import FakeTicker  # noqa: E402

from .example_store import ExampleStore  # noqa: E402


@pytest.fixture
def clock() -> FakeTicker:
    return FakeTicker()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeTicker) -> AsyncIterator[Store]:
    store = ExampleStore(tmp_path / "jobs", clock)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def twin(store: Store, tmp_path: Path, clock: FakeTicker) -> AsyncIterator[Store]:
    twin = ExampleStore(tmp_path / "jobs", clock)
    await twin.open()
    yield twin
    await twin.close()


@pytest.fixture
def tight(store: Store) -> Store:
    return store
