"""How much a worker claims."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mita.rules.claim_size import (
    BESIDE_JOBS,
    CALL_JOBS,
    CLAIM_AHEAD_S,
    Load,
    full_pools,
    jobs_beside_full_pool,
    jobs_to_claim,
    rotate,
    smooth,
)

SMALL = st.integers(0, 5000)
LOADS = st.builds(
    Load,
    slots=st.integers(1, 5000),
    running=SMALL,
    waiting=SMALL,
    rate=st.floats(0, 1e6),
    threads=SMALL,
    on_threads=SMALL,
)


@given(load=LOADS)
def test_room_is_never_negative_and_never_more_than_one_call_takes(load: Load) -> None:
    """I14"""
    assert 0 <= jobs_to_claim(load) <= CALL_JOBS


@given(slots=st.integers(1, 900), running=st.integers(0, 900))
def test_a_slow_worker_claims_what_it_can_start_at_once(slots: int, running: int) -> None:
    assert jobs_to_claim(Load(slots, running, 0, rate=0.0)) == max(0, slots - running)


def test_a_fast_worker_claims_a_little_ahead_and_no_more() -> None:
    assert jobs_to_claim(Load(100, 100, 0, rate=2000)) == 2000 * CLAIM_AHEAD_S
    assert jobs_to_claim(Load(100, 100, 100, rate=2000)) == 0, "what already waits is counted"


@given(load=LOADS)
def test_a_worker_that_holds_more_claims_no_more(load: Load) -> None:
    fuller = Load(
        load.slots, load.running, load.waiting + 1, load.rate, load.threads, load.on_threads
    )
    assert jobs_to_claim(fuller) <= jobs_to_claim(load)


def test_what_needs_a_thread_waits_for_one() -> None:
    assert jobs_to_claim(Load(100, 10, 0, rate=0, threads=8, on_threads=6)) == 2
    assert jobs_to_claim(Load(100, 10, 0, rate=0, threads=8, on_threads=8)) == 0
    assert jobs_to_claim(Load(100, 10, 0, rate=0, threads=0)) == 90, "no task needs one"


def test_a_pool_is_full_when_all_its_places_are_taken() -> None:
    assert full_pools(Load(100, 10, 0, rate=0, threads=8, on_threads=7)) == set()
    assert full_pools(Load(100, 10, 0, rate=0, threads=8, on_threads=9)) == {"thread"}
    assert full_pools(Load(100, 10, 0, rate=0, processes=2, in_processes=2)) == {"process"}
    assert full_pools(Load(100, 10, 0, rate=0)) == set(), "no task needs one"


@given(load=LOADS)
def test_beside_a_full_pool_a_worker_claims_what_it_has_slots_for(load: Load) -> None:
    free = load.slots - load.running - load.waiting
    assert 0 <= jobs_beside_full_pool(load) <= max(0, min(free, BESIDE_JOBS))


@given(rate=st.floats(0, 1e6), finished=st.integers(0, 10_000), seconds=st.floats(0.0001, 100))
def test_the_rate_moves_towards_what_happened_and_not_past_it(
    rate: float, finished: int, seconds: float
) -> None:
    now = finished / seconds
    slack = 1e-6 * (1 + rate + now)
    assert min(rate, now) - slack <= smooth(rate, finished, seconds) <= max(rate, now) + slack


def test_an_idle_worker_forgets_how_fast_it_was() -> None:
    rate = 1000.0
    for _ in range(20):
        rate = smooth(rate, 0, 0.1)
    assert rate < 1
    assert smooth(7.0, 5, 0.0) == 7.0, "no time has passed"


@given(queues=st.lists(st.text(max_size=2), unique=True, max_size=6), turn=st.integers(0, 1000))
def test_every_queue_comes_first_as_often_as_the_others(queues: list[str], turn: int) -> None:
    """I9"""
    rounds = [rotate(queues, turn + n) for n in range(len(queues))]
    assert all(sorted(order) == sorted(queues) for order in rounds)
    assert Counter(order[0] for order in rounds) == Counter(queues)
    assert rotate([], turn) == []
