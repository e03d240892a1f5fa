"""A namespace of its own for each test, on a server that the run shares."""

from collections.abc import AsyncIterator

import pytest

from mita.stores.postgres import PostgresStore
from mita.testing.contract.clocks import FakeTicker

from .shared import fresh_url, server


@pytest.fixture
def url() -> str:
    return fresh_url()


@pytest.fixture
def plain_url() -> str:
    """The same server without a namespace: what a user's own connection is made with."""
    return server("pg18").url()


@pytest.fixture
async def twin(store: PostgresStore, url: str) -> AsyncIterator[PostgresStore]:
    twin = PostgresStore(url)
    await twin.open()
    yield twin
    await twin.close()


@pytest.fixture
async def store(url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def clock() -> FakeTicker:
    return FakeTicker()


@pytest.fixture
async def timed(url: str, clock: FakeTicker) -> AsyncIterator[PostgresStore]:
    """A store that obeys the clock of the test."""
    timed = PostgresStore(url, clock=clock)
    await timed.open()
    yield timed
    await timed.close()
