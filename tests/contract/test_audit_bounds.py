"""The audit log of every store is bounded in number, and shows what it cannot read."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mita.ports.ids import new_ids
from mita.ports.store import Store
from mita.rules import audit
from mita.testing.contract.audit import EVERYTHING, entry, page
from mita.testing.contract.clocks import FakeTicker

from .stores import STORES


@pytest.mark.parametrize("kind", STORES)
async def test_only_the_newest_entries_are_kept(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest are deleted, in the call that records one too many."""
    handles = STORES[kind].handles(tmp_path, FakeTicker())
    async with AsyncExitStack() as closing:
        stores: list[Store] = [handles(), handles()]
        for store in stores:
            await store.open()
            closing.push_async_callback(store.close)
        monkeypatch.setattr(audit, "AUDIT_ENTRIES", 5)
        ids = new_ids(33)
        ids, many, last = ids[:12], ids[12:32], ids[32]
        for at, id in enumerate(ids):
            await stores[at % 2].record_audit([entry(id)])
            expected = ids[max(0, at - 4) : at + 1][::-1]
            assert await page(stores[0]) == expected
        await stores[0].record_audit([entry(id) for id in many])
        assert await page(stores[1]) == many[:-6:-1]
        monkeypatch.setattr(audit, "AUDIT_ENTRIES", 2)
        await stores[1].record_audit([entry(last)])
        assert len(await stores[0].audit_page(None, 100, *EVERYTHING)) == 2
