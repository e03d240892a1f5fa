"""The example store gives the same answers as the memory store, on random walks."""

from collections.abc import Callable
from pathlib import Path

from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test

from mita.ports.clock import Clock
from mita.ports.store import Store
from tests.contract.test_walk import SEED, SETTINGS, SHORT
from tests.contract.walk import Walk

from .example_store import ExampleStore

WALKS = 60  # in the daily run


def handles(folder: Path, clock: Clock) -> Callable[[], Store]:
    return lambda: ExampleStore(folder / "jobs", clock)


def test_the_example_store_and_the_model_give_the_same_answers() -> None:
    """I3 I5 I6 I7 I8 I10 I13"""
    walk = seed(SEED)(type("WalkOverExample", (Walk,), {"make": staticmethod(handles)}))
    how = settings(SETTINGS, max_examples=WALKS) if SHORT else SETTINGS
    run_state_machine_as_test(walk, settings=how)
