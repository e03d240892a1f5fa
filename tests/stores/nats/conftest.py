"""The fixtures of the contract, on a real server and in real time."""

from collections.abc import AsyncIterator

import pytest

pytest.register_assert_rewrite("mita.testing.contract")

from mita.stores.nats import NatsStore  # noqa: E402
from mita.testing.contract.clocks import RealTicker  # noqa: E402

from . import servers  # noqa: E402


@pytest.fixture
def clock() -> RealTicker:
    return RealTicker()


@pytest.fixture
def namespace() -> str:
    return servers.fresh_namespace()


@pytest.fixture
async def store(namespace: str) -> AsyncIterator[NatsStore]:
    store = NatsStore(servers.shared().url, namespace=namespace)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def tight(namespace: str) -> AsyncIterator[NatsStore]:
    store = NatsStore(servers.tight().url, namespace=namespace)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def twin(store: NatsStore, namespace: str) -> AsyncIterator[NatsStore]:
    twin = NatsStore(servers.shared().url, namespace=namespace)
    await twin.open()
    yield twin
    await twin.close()
