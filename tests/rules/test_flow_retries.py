"""Facts about retried steps, in few bytes."""

import random

import pytest

from mita.rules.durable import signal_name
from mita.rules.flow_retries import (
    LOST,
    RETRIED,
    pack_numbers,
    read_numbers,
    succeeded_if_gone,
)


@pytest.mark.parametrize(
    "numbers", [{1}, {99_999}, {8, 9}, {1, 100_000}, set(range(1, 100_001)), {7, 15, 23}]
)
def test_numbers_come_back(numbers: set[int]) -> None:
    packed = pack_numbers(numbers)
    assert read_numbers(packed) == numbers
    assert len(packed) < 12_600


def test_any_numbers_come_back() -> None:
    chance = random.Random(1)
    for _ in range(100):
        numbers = set(chance.sample(range(1, 3000), chance.randint(1, 300)))
        assert read_numbers(pack_numbers(numbers)) == numbers


def test_the_last_fact_about_a_step_counts() -> None:
    """The names end with ids; a later one is greater."""
    facts = [(RETRIED, {1, 2, 3}), (LOST, {2, 3}), (RETRIED, {3, 4}), (LOST, {4})]
    values = {
        signal_name(f"{fact}{at}"): pack_numbers(numbers)
        for at, (fact, numbers) in enumerate(facts)
    }
    assert succeeded_if_gone(dict(reversed(values.items()))) == {1, 3}
    assert succeeded_if_gone({"mita:signal:succeeded:x": b"", "x": b"y"}) == set()
