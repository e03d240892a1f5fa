"""The four fixtures of the contract, for every kind of Redis that is installed."""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("mita.testing.contract")

from mita.stores.redis import RedisStore  # noqa: E402
from mita.stores.redis.store import CALL_RESERVE_BYTES  # noqa: E402
from mita.testing.contract.clocks import FakeTicker  # noqa: E402

from .servers import (  # noqa: E402
    Server,
    bundled,
    fresh_namespace,
    shared,
    shared_cluster,
    small_sizes,
    system,
    valkey,
)

Make = Callable[[], RedisStore]


@pytest.fixture
def clock() -> FakeTicker:
    return FakeTicker()


# The system's own Redis goes through the random walk every day, and through the whole contract
# under `make soak`.
KINDS = ["7", "cluster", "valkey"] if "MITA_SOAK" in os.environ else ["cluster", "valkey"]


def url_of(kind: str) -> str:
    if kind == "cluster":
        return shared_cluster(system() or bundled()).url
    program = valkey() if kind == "valkey" else system()
    if program is None:
        pytest.skip(
            "no redis-server on the path; `tests/contract` has run all of this on the bundled 6.2"
        )
    return shared(program).url


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, clock: FakeTicker) -> Iterator[Make]:
    """Each call makes another handle on the same data. Redis 6.2 is among the stores of
    `tests/contract`, with its usual sizes; here they are small."""
    url, namespace = url_of(request.param), fresh_namespace()
    with small_sizes():
        yield lambda: RedisStore(url, namespace=namespace, clock=clock)


@pytest.fixture
async def store(make: Make) -> AsyncIterator[RedisStore]:
    store = make()
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def twin(store: RedisStore, make: Make) -> AsyncIterator[RedisStore]:
    twin = make()
    await twin.open()
    yield twin
    await twin.close()


@pytest.fixture
async def tight(store: RedisStore) -> RedisStore:
    """As if the server's proto-max-bulk-len was a megabyte; in `tests/contract` it is."""
    store.context.connection.server.limit_calls(1_000_000)
    store.context.job_bytes = 1_000_000 - CALL_RESERVE_BYTES
    return store


@pytest.fixture(params=sorted({bundled(), valkey()}), ids=lambda program: Path(program).name)
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server that a test may do anything to: the oldest Redis that is supported, and the newest
    Valkey. The two report some errors in different words."""
    server = Server(request.param).start()
    yield server
    server.stop()


@pytest.fixture
async def own_store(server: Server, clock: FakeTicker) -> AsyncIterator[RedisStore]:
    """A store on such a server."""
    store = RedisStore(server.url, clock=clock)
    await store.open()
    yield store
    await store.close()
