"""The store contract as a test suite: each module is one promise, each test one sentence of it.

To run it over a store of your own you need pytest and pytest-asyncio (`asyncio_mode = "auto"`), a
`conftest.py` with four fixtures, and a test module that imports the tests:

    # conftest.py
    import pytest

    # before the import, so that failed assertions show their values
    pytest.register_assert_rewrite("mita.testing.contract")

    from mita.testing.contract.clocks import RealTicker

    @pytest.fixture
    def clock():  # FakeTicker() if the store takes a clock; then give it to the store, too
        return RealTicker()

    @pytest.fixture
    async def store(tmp_path):  # an empty store, opened
        store = YourStore(tmp_path)
        await store.open()
        yield store
        await store.close()

    @pytest.fixture
    async def twin(store, tmp_path):  # a second handle on the same data, as another process has
        twin = YourStore(tmp_path)
        await twin.open()
        yield twin
        await twin.close()

    @pytest.fixture
    async def tight(store):  # a store with as little `room` for a job as its engine allows,
        return store  # or the same store if it has no such limit

    # test_contract.py
    from mita.testing.contract import *

A test that needs an ability which not every engine has names its `Can` flag, and is skipped for a
store without it. A docstring that begins with a letter and a number (I3) names the invariant that
the test guards."""

from collections.abc import Awaitable, Callable
from types import ModuleType

from . import (
    ageing,
    amend,
    arrivals,
    audit,
    claim,
    debounce,
    delete,
    enqueue,
    fire,
    groups,
    history,
    holds,
    inspect,
    leases,
    limited_queues,
    limits,
    locks,
    many,
    notify,
    once,
    order,
    pause,
    priorities,
    pubsub,
    rate_wakes,
    rates,
    reap,
    repeats,
    requeue,
    reschedule,
    resources,
    retention,
    rewrite,
    settle,
    several_keys,
    shares,
    signals,
    stored_limits,
    tags,
    timeline,
    unique,
    workers,
)

PROMISES: tuple[ModuleType, ...] = (
    enqueue,
    unique,
    claim,
    order,
    priorities,
    leases,
    reap,
    settle,
    requeue,
    amend,
    arrivals,
    reschedule,
    rewrite,
    delete,
    many,
    resources,
    holds,
    several_keys,
    rates,
    rate_wakes,
    limited_queues,
    stored_limits,
    ageing,
    shares,
    signals,
    debounce,
    pause,
    timeline,
    inspect,
    tags,
    groups,
    workers,
    retention,
    repeats,
    fire,
    locks,
    once,
    limits,
    notify,
    pubsub,
    audit,
    history,
)

TESTS: dict[str, Callable[..., Awaitable[None]]] = {
    name: test
    for promise in PROMISES
    for name, test in vars(promise).items()
    if name.startswith("test_")
}

__all__ = list(TESTS)

globals().update(TESTS)
