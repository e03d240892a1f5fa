"""The suite is worth something only if it notices. Every fault must fail the tests that are named
beside it."""

import inspect
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mita.testing.contract import TESTS, notify, pubsub
from mita.testing.contract.clocks import FakeTicker

from .faults import Fault
from .stores import STORES

ENOUGH_S = 1.0  # for a notification that never comes


async def run(name: str, kind: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """One test of the contract over a new store, as pytest would."""
    entry, clock = STORES[kind], FakeTicker()
    handles = entry.handles(folder, clock)
    (folder / "tight").mkdir()
    async with AsyncExitStack() as closing:
        stores = [handles(), handles(), entry.tight(folder / "tight", clock, patch)]
        for store in stores:
            await store.open()
            closing.push_async_callback(store.close)
        fixtures = {"store": stores[0], "twin": stores[1], "tight": stores[2], "clock": clock}
        wanted = inspect.signature(TESTS[name]).parameters
        await TESTS[name](**{fixture: fixtures[fixture] for fixture in wanted})


async def must_be_noticed(fault: Fault, kind: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    fault.break_it(patch)
    patch.setattr(notify, "WAKE_UP_TIMEOUT_S", ENOUGH_S)
    patch.setattr(pubsub, "DELIVERY_TIMEOUT_S", ENOUGH_S)
    for n, name in enumerate(fault.noticed_by):
        place = folder / str(n)
        place.mkdir()
        with pytest.raises(AssertionError) as noticed:
            await run(name, kind, place, patch)
        assert "must be written anew" not in str(noticed.value)


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        pytest.param(kind, fault, id=f"{kind}-{fault.what}")
        for kind, entry in STORES.items()
        for fault in entry.faults
    ],
)
async def test_a_planted_fault_is_noticed(
    kind: str, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await must_be_noticed(fault, kind, tmp_path, monkeypatch)


async def test_the_tests_that_notice_pass_over_whole_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or they would notice nothing at all."""
    for kind, entry in STORES.items():
        for name in {name for fault in entry.faults for name in fault.noticed_by}:
            folder = tmp_path / f"{kind}-{name}"
            folder.mkdir()
            await run(name, kind, folder, monkeypatch)
