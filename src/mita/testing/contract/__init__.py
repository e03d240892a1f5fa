"""The store contract as a test-suite: each module is one promise, each test a sentence.

To run it over a store of your own, with pytest and pytest-asyncio (`asyncio_mode = "auto"`), write
a `conftest.py` that gives four fixtures, and a test module that takes the tests in:

    # conftest.py
    import pytest
    pytest.register_assert_rewrite("mita.testing.contract")  # before the import below
    from mita.testing.contract.clocks import RealTicker

    @pytest.fixture
    def clock():
        return RealTicker()  # or FakeTicker(), if the store takes a clock: pass it to the store

    @pytest.fixture
    async def store(tmp_path):  # an empty store, opened
        store = YourStore(tmp_path)
        await store.open()
        yield store
        await store.close()

    @pytest.fixture
    async def twin(store, tmp_path):  # a second handle on the same data, as another process has it
        twin = YourStore(tmp_path)
        await twin.open()
        yield twin
        await twin.close()

    @pytest.fixture
    async def tight(store):  # a store with the smallest size limit its engine can have,
        return store         # or the same store, if it has no limit

    # test_contract.py
    from mita.testing.contract import *

A promise that not every engine can keep names the `Can` flag it needs, and is skipped for a store
without it. The letter and number in a docstring (I3) is the invariant that the test guards."""

from collections.abc import Awaitable, Callable
from types import ModuleType

from . import (
    amend,
    claim,
    delete,
    enqueue,
    holds,
    inspect,
    leases,
    limits,
    locks,
    many,
    notify,
    once,
    order,
    pause,
    pubsub,
    reap,
    repeats,
    resources,
    retention,
    settle,
    timeline,
    unique,
)

PROMISES: tuple[ModuleType, ...] = (
    enqueue,
    unique,
    claim,
    order,
    leases,
    reap,
    settle,
    amend,
    delete,
    many,
    resources,
    holds,
    pause,
    timeline,
    inspect,
    retention,
    repeats,
    locks,
    once,
    limits,
    notify,
    pubsub,
)

TESTS: dict[str, Callable[..., Awaitable[None]]] = {
    name: test
    for promise in PROMISES
    for name, test in vars(promise).items()
    if name.startswith("test_")
}

__all__ = list(TESTS)

globals().update(TESTS)
