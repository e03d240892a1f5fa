"""Every store beside the model, on random walks.

`MITA_SEED=n` walks other ways, `MITA_WALKS=n` more of them; `MITA_SHRINK=0` shows a failing walk as
it is, at once. A store behind a server answers slowly, so it walks less in the daily run; `make
soak` walks all of them at length."""

import os

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from .arrival_faults import IN_SQL
from .faults import IN_SQLITE, Fault
from .stores import STORES
from .walk import Walk

SEED = int(os.environ.get("MITA_SEED", "1"))
WALKS = int(os.environ.get("MITA_WALKS", "300"))
SHORT = "MITA_WALKS" not in os.environ and "MITA_SOAK" not in os.environ
SHRINK = os.environ.get("MITA_SHRINK", "1") != "0"
STEPS = 50

# The seed alone says which way a walk goes: no database, so that a failure on one machine is a
# failure on all.
SETTINGS = settings(
    max_examples=WALKS,
    stateful_step_count=STEPS,
    deadline=None,
    database=None,
    phases=[Phase.generate, Phase.shrink] if SHRINK else [Phase.generate],
    report_multiple_bugs=False,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)


def go(kind: str, how: settings) -> None:
    print(f"MITA_SEED={SEED}, {how.max_examples} walks of {STEPS} steps")
    make = staticmethod(STORES[kind].handles)
    walk = seed(SEED)(type(f"WalkOver{kind.title()}", (Walk,), {"make": make}))
    run_state_machine_as_test(walk, settings=how)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "kind", [kind for kind, entry in STORES.items() if kind != "memory" and entry.fake_clock]
)
def test_a_store_and_the_model_give_the_same_answers(kind: str) -> None:
    """I3 I5 I6 I7 I8 I10 I13"""
    go(kind, settings(SETTINGS, max_examples=STORES[kind].walks) if SHORT else SETTINGS)


FOUND_BY_WALKING = (
    "an order without priority",
    "a reap without a new token",
    "a blocked job that is not woken",
    "a token that is given twice",
    "a token that wakes all jobs",
    "a further key that is not freed",
    "a group that is not charged for its starts",
    "an early release",
    "a release that counts other values",
)


@pytest.mark.parametrize(
    "fault",
    [fault for fault in [*IN_SQLITE, *IN_SQL] if fault.what in FOUND_BY_WALKING],
    ids=lambda fault: fault.what,
)
def test_a_walk_over_a_broken_store_comes_to_a_difference(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault.break_it(monkeypatch)
    with pytest.raises(AssertionError, match="assert"):
        go("sqlite", settings(SETTINGS, phases=[Phase.generate]))
