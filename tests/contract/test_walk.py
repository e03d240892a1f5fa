"""Every store beside the model, on random walks. `MITA_SEED=n` walks other ways, `MITA_WALKS=n` more of them."""

import os

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from .stores import STORES
from .walk import Walk

SEED = int(os.environ.get("MITA_SEED", "1"))
WALKS = int(os.environ.get("MITA_WALKS", "300"))
STEPS = 50

# The seed alone says which way a walk goes: no database, so that a failure on one machine is a failure on all.
SETTINGS = settings(
    max_examples=WALKS,
    stateful_step_count=STEPS,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kind", STORES)
def test_a_store_and_the_model_give_the_same_answers(kind: str) -> None:
    """I3 I5 I6 I7 I8 I10 I13"""
    print(f"MITA_SEED={SEED}, {WALKS} walks of {STEPS} steps")
    walk = seed(SEED)(type(f"WalkOver{kind.title()}", (Walk,), {"make": staticmethod(STORES[kind])}))
    run_state_machine_as_test(walk, settings=SETTINGS)
