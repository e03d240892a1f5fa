"""The random walk over a Valkey and the Redis of this system, with small sizes. `tests/contract`
has the bundled one."""

from functools import partial

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test

from mita.ports.clock import Clock
from mita.stores.redis import RedisStore
from tests.contract.stores import Handles
from tests.contract.test_walk import SEED, SETTINGS
from tests.contract.walk import Walk

from .servers import fresh_namespace, shared, small_sizes, system, valkey

WALKS = 60


def make(program: str, folder: object, clock: Clock) -> Handles:
    url, namespace = shared(program).url, fresh_namespace()
    return lambda: RedisStore(url, namespace=namespace, clock=clock)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["system", "valkey"])
def test_other_kinds_of_redis_and_the_model_give_the_same_answers(kind: str) -> None:
    """I3 I5 I6 I7 I8 I10 I13"""
    program = valkey() if kind == "valkey" else system()
    if program is None:
        pytest.skip("no redis-server on the path; the bundled 6.2 is walked over in tests/contract")
    walk = seed(SEED)(
        type("WalkOver" + kind.title(), (Walk,), {"make": staticmethod(partial(make, program))})
    )
    with small_sizes():
        run_state_machine_as_test(walk, settings=settings(SETTINGS, max_examples=WALKS))
