"""The random walk over the Redis of this system, with small sizes. `tests/contract` walks over the bundled one as it is."""

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test

from mita.ports.clock import Clock
from mita.stores.redis import RedisStore
from tests.contract.stores import Handles
from tests.contract.test_walk import SEED, SETTINGS
from tests.contract.walk import Walk

from .servers import fresh_namespace, shared, small_sizes, system

WALKS = 60


def make(folder: object, clock: Clock) -> Handles:
    url, namespace = shared(str(system())).url, fresh_namespace()
    return lambda: RedisStore(url, namespace=namespace, clock=clock)


@pytest.mark.timeout(600)
@pytest.mark.skipif(system() is None, reason="no redis-server on the path; the bundled 6.2 is walked over in tests/contract")
def test_the_redis_of_this_system_and_the_model_give_the_same_answers() -> None:
    """I3 I5 I6 I7 I8 I10 I13"""
    walk = seed(SEED)(type("WalkOverSystemRedis", (Walk,), {"make": staticmethod(make)}))
    with small_sizes():
        run_state_machine_as_test(walk, settings=settings(SETTINGS, max_examples=WALKS))
