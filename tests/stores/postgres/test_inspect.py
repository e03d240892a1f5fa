"""Reads that belong together see one snapshot."""

from typing import Any

import pytest

from mita.stores.postgres import PostgresStore, connection
from mita.stores.postgres.server.connect import PsycopgConnection
from mita.testing.contract.given import QUEUE, claims, put


async def test_a_job_that_starts_while_queues_are_counted_is_counted_as_it_was(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I13. It starts after the first statement that has counted it, and before the one that says
    how many are due."""
    await put(store)
    execute, counts = connection.execute, store._state.statements["queues_counts"]

    async def and_then_it_starts(on: PsycopgConnection, text: str, values: dict[str, Any]) -> Any:
        cursor = await execute(on, text, values)
        if text == counts:
            assert await cursor.fetchone() is not None, "the server has counted"
            await cursor.scroll(0, mode="absolute")
            assert len(await claims(store, 1)) == 1
        return cursor

    monkeypatch.setattr(connection, "execute", and_then_it_starts)
    [view] = await store.queues()
    assert (view.name, view.scheduled, view.ready, view.running) == (QUEUE, 0, 1, 0)
