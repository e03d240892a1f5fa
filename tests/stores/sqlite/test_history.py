"""The history of runs in a file stays small."""

import sqlite3
from pathlib import Path

from mita.model.history import HOURS_KEPT_MS, MINUTES_KEPT_MS, RunCounts
from mita.model.time import HOUR, MINUTE
from mita.stores.sqlite import SqliteStore
from mita.testing.clock import FakeClock


async def test_a_prune_deletes_the_rows_that_are_not_shown_any_more(tmp_path: Path) -> None:
    clock = FakeClock()
    store = SqliteStore(tmp_path / "jobs.db", clock=clock)
    await store.open()

    def rows() -> int:
        with sqlite3.connect(tmp_path / "jobs.db") as database:
            found: int = database.execute("select count(*) from _mita_history").fetchone()[0]
        database.close()
        return found

    for _ in range(3):
        await store.count_runs([RunCounts(queue="q", task="t", succeeded=1)])
        clock.move_ms(MINUTE)
    before = rows()
    await store.prune(10, 10)
    assert rows() == before >= 4
    clock.move_ms(MINUTES_KEPT_MS)
    await store.prune(10, 10)
    assert rows() == before - 3
    clock.move_ms(HOURS_KEPT_MS + HOUR)
    await store.prune(10, 10)
    assert rows() == 0
    await store.close()
